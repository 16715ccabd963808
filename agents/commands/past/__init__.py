"""What was decided and why: timeline, tap, plan, replay, incident files."""
