"""Usage: what containers used, read from a metrics API or a Prometheus server, now and for the past."""
