"""What changes the log on a person's behalf: mode, pause, policies, reverts, topics, imports."""
