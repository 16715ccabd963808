"""Usage that senders bring, by remote-write or OTLP, as an answer for the usage source."""
