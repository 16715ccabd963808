"""Watching: list-watch of the API server, its threads, and what they bring in."""
