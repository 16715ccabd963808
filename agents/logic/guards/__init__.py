"""Guards that every stage which plans shares, whatever its plans are about: control record, budget, rate, warm-up and staleness.

Each guard says in a sentence why something is left alone now, or None. When a plan becomes void stands here too.
"""
