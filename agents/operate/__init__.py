"""Commands of operators: what `ullage policy`, `pause`, `resume` and `mode` put into the log."""
