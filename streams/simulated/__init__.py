"""A simulated cluster: deployments, nodes, a scheduler, a kubelet and made-up load, on time that is given to it.

It speaks through the same client port as a real cluster, in memory or over HTTP. Same seed and same calls, same bytes. What it
does not simulate: networks, disks, node failures, contention for a node's CPU, and containers that outgrow a node's memory.
"""
