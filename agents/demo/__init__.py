"""`ullage demo`: a simulated day (or a recorded one) to watch, which leaves nothing behind."""
