"""Guards shared by all stages that plan: control record, budget, rate, warm-up and staleness.

Each guard returns a sentence that explains why something must be left alone now, or None. The expiry of plans is here, too.
"""
