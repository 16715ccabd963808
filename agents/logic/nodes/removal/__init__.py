"""Removal: which nodes are not needed, may be replaced or made cheaper, and whether they can be drained."""
