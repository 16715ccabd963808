"""The history source: what a Prometheus server remembers becomes facts, once, before there are live ones."""
