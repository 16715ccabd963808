"""The consumers that change pods: evictor, resizer and the patcher of new pods."""
