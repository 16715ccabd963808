"""Composition roots: how the processes of sources, consumers and the broker are put together, run, and stopped."""
