"""The thinking and the running: pure logic, the stages it makes, and the drivers that host them."""
