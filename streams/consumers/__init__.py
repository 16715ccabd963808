"""Consumers: they carry decisions out and append an outcome whatever happens. They decide nothing.

resizer   changes a running pod's requests in place
evictor   evicts a pod, so that its successor starts with other requests
patcher   answers for new pods, from the newest recommendations
"""
