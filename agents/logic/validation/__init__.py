"""Which events a stage refuses, with the sentence that says why."""
