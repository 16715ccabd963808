"""Lines of numbers that many share: equal ones stand once, NaN is equal to itself, and tidying moves nobody's numbers."""

import math

import numpy as np

from agents.logic.vertical.estimate_rules import RuleLines


def test_equal_lines_stand_once_and_come_back_as_they_were() -> None:
    lines = RuleLines(2)
    places = [lines.place([a, b]) for a, b in ((1.0, math.nan), (2.0, 0.0), (1.0, math.nan), (2.0, -0.0))]
    assert places == [0, 1, 0, 2]
    assert np.array_equal(lines[np.array(places)], [[1, math.nan], [2, 0], [1, math.nan], [2, 0]], equal_nan=True)
    assert lines.item(1, 0) == 2.0


def test_lines_that_nobody_wants_any_more_go_and_the_others_stay_what_they_were() -> None:
    lines = RuleLines(1)
    places = np.array([lines.place([float(n)]) for n in range(2000)])
    assert lines.crowded(900)
    assert not lines.crowded(1000)
    wanted = places[[1999, 5, 5, 700]]
    after = lines.tidy(wanted)
    assert lines[after].tolist() == [[1999.0], [5.0], [5.0], [700.0]]
    assert len(lines) == 3
    assert lines.place([5.0]) == after[1]
    assert lines[np.array([lines.place([4.0])])].tolist() == [[4.0]]
