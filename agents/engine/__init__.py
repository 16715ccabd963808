"""The engine under every stage: turns, checkpoints and the tables that state is made of. Pure."""
