"""A Kubernetes API server as a client sees it: requests, lists and watches, and how the objects in its answers are read."""
