"""Usage of the past: what a metrics store recorded before there was a log."""
