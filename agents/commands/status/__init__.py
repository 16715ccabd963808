"""What is going on: parts, sources, and warnings."""
