"""The verifying driver: recomputes turns from the log and compares them with what was published."""
