"""Kubernetes' arithmetic of requests and limits: exact quantities, limits in proportion, LimitRanges, and caps on amounts."""
