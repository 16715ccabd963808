"""The report and the live console."""
