"""State as tables: what a stage remembers, in pieces that a checkpoint can write one by one."""
