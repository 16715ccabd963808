"""The consumer that serves external and custom metrics to autoscalers: forecasts, and the replicas that schedules ask for."""
