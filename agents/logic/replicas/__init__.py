"""How many replicas a workload should have: Kubernetes' own algorithm, schedules, and what Crane's EHPA makes of a forecast."""
