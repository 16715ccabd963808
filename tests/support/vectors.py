"""Upstream's vectors: outputs of the real VPA for given inputs. They live outside the repository; without them tests skip."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("ULLAGE_SHARED", Path(__file__).parents[3] / "shared")) / "golden" / "vpa"


def vectors(family: str) -> list[object]:
    """Parameters for pytest: one case for each vector, or one that is skipped."""
    path = ROOT / f"{family}.json"
    if not path.exists():
        reason = f"no vectors at '{path}'; set ULLAGE_SHARED"
        return [pytest.param({}, id="absent", marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(vector, id=vector["id"]) for vector in json.loads(path.read_text())["vectors"]]


def close(mine: float, theirs: float) -> bool:
    """Equal to a relative 1e-9, the tolerance that the vectors state."""
    return abs(mine - theirs) <= 1e-9 * max(abs(mine), abs(theirs))


def differences(mine: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    """How a histogram's state differs from a vector's; ties at a percentile's threshold may fall either way."""
    found = [f"{k}: {mine[k]}, not {theirs[k]}" for k in ("empty", "min_bucket", "max_bucket") if mine[k] != theirs[k]]
    dated = [key for key in ("total_weight", "reference_ts") if key in theirs]
    found += [f"{k}: {mine[k]}, not {theirs[k]}" for k in dated if not close(number(mine[k]), number(theirs[k]))]
    ties = numbers(theirs.get("near_ties", ()))
    pairs = zip(numbers(mine["percentiles"]), numbers(theirs["percentiles"]), strict=True)
    found += [f"percentile {i}: {a}, not {b}" for i, (a, b) in enumerate(pairs) if i not in ties and not close(a, b)]
    if "weights" in theirs:
        expected = theirs["weights"]
        weights = mine["weights"]
        assert isinstance(expected, dict)
        assert isinstance(weights, dict)
        if weights.keys() != expected.keys() or not all(close(weights[k], expected[k]) for k in expected):
            found.append(f"weights: {weights}, not {expected}")
    return found


def number(value: object) -> float:
    """A number of a vector."""
    assert isinstance(value, int | float)
    return float(value)


def numbers(value: object) -> Sequence[float]:
    """A list of numbers of a vector."""
    assert isinstance(value, list | tuple)
    return [number(v) for v in value]
