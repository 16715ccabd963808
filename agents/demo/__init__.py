"""`ullage demo`: a simulated day (or a recorded one) that anybody can watch, and that leaves nothing behind."""
