"""Clients of the outside world: the cluster port, Kubernetes API servers, Prometheus."""
