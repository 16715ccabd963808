"""The edges: topics, codec, log, sources, consumers, clients and the simulated cluster. They carry; they do not decide."""
