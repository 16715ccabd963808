"""The consumer that writes what was decided into the status of VPA objects."""
