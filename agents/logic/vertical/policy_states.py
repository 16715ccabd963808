"""What policies written as code remember, in tables that checkpoints hold.

A table belongs to a policy's name, version and columns, so a policy whose source changed goes on with what it knew, unless its
author gave it another version.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from agents.engine.tables.row_table import ColumnSpec, Indices, RowKey, RowTable
from agents.logic.vertical.policy_code import CodePolicy, PolicyState
from schemas.times import NEVER

NAME = "policy-states"
LAST = ".last"
"""The column of the time of the last sample of usage; a policy's own columns have no dot."""

_NOTHING = RowTable("nothing", {})
"""For policies that remember nothing."""


def nothing_remembered(count: int) -> PolicyState:
    """The memory of this many containers of a policy that has none."""
    return PolicyState(_NOTHING, np.arange(count))


class PolicyStates:
    """The tables of these policies, and the chunks of others. A part of a stage's state."""

    name = NAME

    def __init__(self, policies: Iterable[CodePolicy]) -> None:
        """Empty tables for those that declare a state."""
        self._tables = {policy.memory: _table(policy) for policy in policies if policy.state}
        self._others: dict[str, bytes] = {}
        self._dirty: set[str] = set()

    def table(self, policy: CodePolicy) -> RowTable | None:
        """The table of a policy; None if it remembers nothing."""
        return self._tables.get(policy.memory) if policy.state else None

    def forget(self, keys: Iterable[RowKey]) -> None:
        """These containers (workload, name) are gone."""
        for table in self._tables.values():
            for key in keys:
                if key in table:
                    table.free(key)
            table.freed.clear()

    def forget_others(self) -> None:
        """The policies that decide are known: drop what others remembered."""
        for chunk, data in self._others.items():
            if data:
                # An empty chunk overwrites the one in the checkpoint, which cannot be deleted.
                self._others[chunk] = b""
                self._dirty.add(chunk)

    def chunks(self) -> Iterable[str]:
        """Names of all chunks, of tables first."""
        return [*(chunk for table in self._tables.values() for chunk in table.chunks()), *self._others]

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        dirty, self._dirty = self._dirty, set()
        return dirty.union(*(table.take_dirty() for table in self._tables.values()))

    def touch_all(self) -> None:
        """Every chunk counts as changed."""
        self._dirty.update(self._others)
        for table in self._tables.values():
            table.touch_all()

    def dump(self, chunk: str) -> bytes:
        """The bytes of one chunk; none of a policy that decides no more."""
        table = self._tables.get(_owner(chunk))
        return self._others[chunk] if table is None else table.dump(chunk)

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        table = self._tables.get(_owner(chunk))
        if table is None:
            # Until the rules of the log are known, after a start, what another policy remembered is kept as it is.
            self._others[chunk] = data
        elif data:
            table.load(chunk, data)


def rows_of(table: RowTable, keys: Sequence[RowKey]) -> Indices:
    """The rows of these keys, made in order of name where they are new."""
    # In order of name, so that rows follow from names and time alone and a replay has the same chunks.
    for key in sorted(key for key in keys if key not in table):
        table.add(key)
    return np.array([table.row(key) for key in keys], np.int64)


def _table(policy: CodePolicy) -> RowTable:
    columns = {column.name: column.spec for column in policy.state}
    return RowTable(f"{NAME}/{policy.memory}", {LAST: ColumnSpec(default=NEVER), **columns})


def _owner(chunk: str) -> str:
    return chunk.split("/", 2)[1]
