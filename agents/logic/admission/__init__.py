"""What an admission webhook answers: pods are patched with what is recommended for them, VPA objects are completed and checked."""
