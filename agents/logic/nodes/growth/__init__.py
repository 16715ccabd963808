"""Growth: which pods wait, how many new nodes of which group they need, and which group grows."""
