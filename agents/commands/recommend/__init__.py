"""What workloads should request, from the log, from a cluster, or from a recording."""
