"""Commands that only read: what `ullage doctor`, `status`, `tap`, `replay`, `backtest` and `checkpoints` do."""
