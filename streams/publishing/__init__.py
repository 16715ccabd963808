"""What sources share: facts become records, wait for the log in an outbox, and are compared with what was published before."""
