"""Where a pod may run, by the scheduler's rules: pods as shapes, nodes as columns, and each filter for all nodes at once."""
