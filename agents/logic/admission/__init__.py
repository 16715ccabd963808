"""What an admission webhook answers: new pods get what is recommended for them, VPA objects are completed and checked."""
