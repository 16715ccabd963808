"""The bench: what the worker does on this machine, on a real Kafka, with the real stages."""
