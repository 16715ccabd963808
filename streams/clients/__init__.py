"""Clients of the outside world: the cluster port, Kubernetes API servers and Prometheus servers."""
