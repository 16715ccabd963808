"""The stage: when it decides, and how a decision becomes plans, refusals and reports."""
