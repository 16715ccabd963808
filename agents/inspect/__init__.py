"""Commands that change nothing in log and cluster, except `ullage checkpoints export`. Each command has a file of its own."""
