"""A simulated cluster: deployments, nodes, a scheduler, a kubelet and made-up load, on time that its caller gives it.

It has the same client port as a real cluster, in memory and over HTTP. Same seed and same calls, same bytes. What it does not
simulate: networks, disks, node failures, contention for a node's CPU, and containers that outgrow a node's memory.
"""
