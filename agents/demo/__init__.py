"""`ullage demo`: a simulated day (or a recorded one) that a stranger can watch, and that leaves nothing behind."""
