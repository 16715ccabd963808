"""Node groups: which nodes a cluster needs, which it can lose, and why; what Kubernetes' Cluster Autoscaler decides, in columns."""
