"""What the log says of a cluster: its facts as state, and as the picture that a decision looks at."""
