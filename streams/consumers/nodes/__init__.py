"""The asg consumer: lets groups grow, and takes single nodes away, as decided."""
