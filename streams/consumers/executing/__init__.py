"""Executing decisions exactly once each: what all consumers that act share."""
