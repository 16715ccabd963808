"""Node groups: which nodes a cluster needs, which it can lose, and why. What the Cluster Autoscaler decides, in columns."""
