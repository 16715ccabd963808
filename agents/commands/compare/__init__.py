"""What other rules would have done: backtests, comparisons, what-if."""
