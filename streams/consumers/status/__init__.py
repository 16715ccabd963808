"""The status of VPA objects, kept as the log says."""
