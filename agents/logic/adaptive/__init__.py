"""`adaptive`: a policy whose risk people choose, written in the interface of policies as code."""
