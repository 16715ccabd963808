"""The consumer that answers an autoscaler's questions for external metrics: what is forecast, and what schedules ask for."""
