"""The codec: events to records and back."""
