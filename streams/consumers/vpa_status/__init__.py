"""The consumer that keeps the status of VPA objects."""
