"""The members of whole workloads, found by arithmetic, are those that looking each name up finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.vertical.container_order import MemberOrder

KEYS = st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"))


@given(st.lists(KEYS, unique=True, min_size=1, max_size=12), st.data())
def test_whole_workloads_come_in_order_of_workload_and_container(names: list[tuple[str, str]], data: st.DataObject) -> None:
    of: dict[str, list[int]] = {}
    for member, (workload, _) in enumerate(names):
        of.setdefault(workload, []).append(member)
    numbers = np.array([ord(workload) for workload, _ in names], np.int64)
    order = MemberOrder.of(names, of.values(), numbers)
    due = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=6))
    first, members, workload = order.whole_workloads(order.workloads(np.array(due, np.int64)))
    wanted = sorted({names[member][0] for member in due})
    assert [names[member][0] for member in first] == wanted
    assert [names[member] for member in members] == [key for each in wanted for key in sorted(names) if key[0] == each]
    assert [wanted[number] for number in workload] == [names[member][0] for member in members]
