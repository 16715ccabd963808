"""The asg source: what Auto Scaling Groups are, hold and fail at becomes facts in the log."""
