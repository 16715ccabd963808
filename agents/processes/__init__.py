"""Composition roots: how the processes of sources and consumers are put together, run, and stopped."""
