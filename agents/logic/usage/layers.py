"""Cuts a sequence of rows, of which some may stand there twice, into layers in which none does, so that numpy can fold each."""

import numpy as np

from agents.engine.tables.row_table import Indices


def layers(rows: Indices) -> list[Indices]:
    """Positions in `rows`, cut so that no layer holds a row twice and each row's positions come in order."""
    order = np.argsort(rows, kind="stable")
    ranked = rows[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    rank = np.arange(len(rows)) - np.repeat(starts, np.diff(np.r_[starts, len(rows)]))
    if not len(rank) or rank.max() == 0:
        return [np.arange(len(rows))]
    place = np.empty_like(rank)
    place[order] = rank
    return [np.flatnonzero(place == layer) for layer in range(rank.max() + 1)]
