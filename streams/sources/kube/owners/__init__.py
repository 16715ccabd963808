"""Owners: the chain of controllers above a pod, the pod's workload, and the targets of VPAs."""
