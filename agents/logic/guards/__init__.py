"""Guards shared by all stages that plan: control record, budget, rate, warm-up and staleness.

Each guard says in a sentence why something is left alone now, or None. The expiry of plans is here, too.
"""
