"""Explains a decision: from an action back to the facts it rests on."""
