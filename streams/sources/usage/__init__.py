"""The usage source: what containers used, from the metrics API or Prometheus."""
