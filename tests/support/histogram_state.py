"""A histogram as the vectors write it."""

import numpy as np

from agents.logic.usage.histograms import Histograms


def state(histograms: Histograms, row: int, shares: list[float]) -> dict[str, object]:
    """What upstream's vectors say of one histogram."""
    rows, name = histograms.rows, histograms.name
    weights = histograms.weights.dense(np.array([row]))[0]
    low = int(rows.whole(f"{name}_low")[row])
    return {
        "empty": bool(weights[low] < histograms.scale.epsilon),
        "min_bucket": low,
        "max_bucket": int(rows.whole(f"{name}_high")[row]),
        "total_weight": float(rows.floats(f"{name}_total")[row]),
        "reference_ts": float(rows.floats(f"{name}_reference")[row]),
        "percentiles": [float(found[0]) for found in histograms.percentiles(np.array([row]), shares)],
        "weights": {str(i): float(weights[i]) for i in np.flatnonzero(weights)},
    }
