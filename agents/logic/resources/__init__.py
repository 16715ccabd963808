"""Amounts of CPU and memory: bounds, and limits that follow requests. Every capability may use it."""
