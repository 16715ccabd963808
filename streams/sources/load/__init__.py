"""The source of loads: the metrics that workloads are scaled by, now and in the past of a metrics store."""
