"""The pure logic, the stages that it makes up, and the drivers that host them."""
