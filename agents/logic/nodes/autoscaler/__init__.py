"""One decision about all groups of a cluster, and what it remembers for the next one."""
