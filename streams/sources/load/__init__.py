"""The source of loads: what the metrics by which workloads are scaled are now, and what a metrics store remembers of them."""
