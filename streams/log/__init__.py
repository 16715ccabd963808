"""The log: a port and its three adapters, in memory, in a file and in Kafka."""
