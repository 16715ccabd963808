"""What runs the stages: their list and topics, one partition's task, and the runners over a log."""
