"""The asg consumer: grows groups and removes single nodes, as decided."""
