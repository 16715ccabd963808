"""The settings: what can be set, where values come from, and what is built from them."""
