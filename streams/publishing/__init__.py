"""What sources share when they publish: records, an outbox with a bound, and what was published before."""
