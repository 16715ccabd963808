"""What a metric will be: predictors that learn from a series of samples and say the next hours, or why they cannot."""
