"""What operators change: `ullage policy`, `pause`, `resume` and `mode` publish to the log, `ullage topics` changes Kafka."""
