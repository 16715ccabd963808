"""Owners: the controller chain above a pod, its workload, and the targets of VPAs."""
