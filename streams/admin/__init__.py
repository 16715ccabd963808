"""Topics on a broker: what would change, and changing it."""
