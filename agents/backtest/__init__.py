"""The backtest driver: the stages over recorded usage, and the score of what they recommend."""
