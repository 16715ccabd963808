"""Sources put facts, policies and ticks into the log. A source reports what it saw and never judges."""
