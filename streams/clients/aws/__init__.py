"""AWS as far as Auto Scaling Groups need it: typed answers, calls that are bounded, and refusals that say what to do.

The SDK is an optional dependency, imported when somebody connects: an installation without AWS never loads it.
"""
