"""Pure logic: state and a turn in, state and decisions out. No clock, chance, environment or I/O below this folder."""
