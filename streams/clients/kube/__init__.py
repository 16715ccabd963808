"""The client of a Kubernetes API server: requests, lists and watches, and the objects in its answers."""
