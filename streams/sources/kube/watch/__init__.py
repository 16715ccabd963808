"""Watching: list-watch of the API server, look-ups beside it, and the notifications that both bring in."""
