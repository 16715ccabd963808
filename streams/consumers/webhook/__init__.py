"""The admission webhook: gives new pods what is recommended for them, and checks VPA objects."""
