"""A stretch of the log as one portable file, and back into a log: what an incident is kept, sent and replayed as."""
