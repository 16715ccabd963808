"""The consumers that change pods: evictor and resizer."""
