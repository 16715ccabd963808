"""Predictors that learn from a metric's samples and forecast its next hours, or explain why they cannot."""
