"""Tables: what a stage remembers, in chunks that a checkpoint can write one by one."""
