"""Policies as code: where they come from, what they may do, and the process in which they are tried."""
