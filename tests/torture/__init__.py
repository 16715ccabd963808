"""The torture test: kill everything at random, then recompute state and decisions from the log alone and compare bit for bit."""
