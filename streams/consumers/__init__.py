"""Consumers: they carry decisions out and append an outcome whatever happens. They decide nothing.

resizer   changes a running pod's requests in place             (streams.consumers.resizer)
evictor   evicts a pod, so that its successor gets other requests (streams.consumers.evictor)
webhook   gives new pods the recommended requests               (streams.consumers.webhook)
status    writes the status of VPA objects                      (streams.consumers.vpa_status_consumer)

What they share, from the control record to the rate limit, is in streams.consumers.executing.
"""
