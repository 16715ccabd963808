"""Checkpoints survive death at any record, owners that were thought dead, and compaction.

The model: one changelog, one owner at a time by right, and zombies that go on writing. Truth is a plain function: what chunk i
holds at turn t. A recovery is right if each chunk it finds holds that, and if nothing acknowledged was lost without a reason.
"""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agents.engine import checkpoint_selection
from agents.engine.checkpoint_selection import ChangelogContents, CheckpointLedger, CheckpointMark, CheckpointPlan, Slot
from agents.engine.input_digest import InputDigests

CHUNKS = ("rows/0", "rows/1", "rows/2", "rest")
Write = tuple[bytes, bytes | None]


def changed(chunk: int, turn: int) -> bool:
    """Whether a chunk changed at a turn: about every third time, by a fixed rule."""
    return (turn * 7 + chunk * 5) % 3 == 0


def content(chunk: int, turn: int) -> bytes:
    """What a chunk holds after a turn: the number of its last change; all are made at turn 0."""
    return str(max((t for t in range(1, turn + 1) if changed(chunk, t)), default=0)).encode()


@dataclass
class Owner:
    """A worker that has the partition, or thinks so. Its writes reach the log one by one, in any order within a phase."""

    family: str
    turn: int
    foreign: list[bytes]
    dirty: set[int] = field(default_factory=lambda: set(range(len(CHUNKS))))
    phases: list[list[Write]] = field(default_factory=list)
    plan: CheckpointPlan | None = None

    def __post_init__(self) -> None:
        self.ledger = CheckpointLedger(self.family, self.foreign)

    def advance(self) -> None:
        self.turn += 1
        self.dirty |= {i for i in range(len(CHUNKS)) if changed(i, self.turn)}

    def checkpoint(self) -> None:
        if self.plan is not None or self.turn <= self.ledger.marked:
            return
        dumps = [(CHUNKS[i], content(i, self.turn)) for i in sorted(self.dirty)]
        self.dirty = set()
        plan = self.ledger.plan(turn=self.turn, positions={"in": self.turn * 10}, dumps=dumps)
        self.plan, self.phases = plan, [list(plan.records), [plan.mark], [(key, None) for key in plan.tombstones]]

    def write_one(self, log: list[Write], chance: random.Random) -> None:
        """One record of the phase reaches the log; when a phase is out, it is acknowledged."""
        if self.plan is None:
            return
        if self.phases[0]:
            log.append(self.phases[0].pop(chance.randrange(len(self.phases[0]))))
        while self.phases and not self.phases[0]:
            self.phases.pop(0)
            if len(self.phases) == 1:
                self.ledger.accept(self.plan)
        if not self.phases:
            self.ledger.buried()
            self.plan = None


def last_of_each_key(log: list[Write]) -> dict[bytes, bytes | None]:
    return dict(log)


def check(reading: ChangelogContents) -> None:
    """Whatever was found is a whole and right state."""
    if reading.found is None:
        return
    mark = reading.found.mark
    assert dict(reading.found.chunks) == {name: content(i, mark.turn) for i, name in enumerate(CHUNKS)}
    assert mark.positions == {"in": mark.turn * 10}


def unburied(acked: dict[str, int], log: list[Write]) -> int:
    """The newest acknowledged mark whose family nobody has begun to bury."""
    buried = {key.partition(b"/")[0].decode() for key, value in log if value is None}
    return max((turn for family, turn in acked.items() if family not in buried), default=-1)


@dataclass
class World:
    """Owner, zombies, the changelog, and the newest acknowledged mark of each family."""

    chance: random.Random
    with_zombies: bool
    log: list[Write] = field(default_factory=list)
    zombies: list[Owner] = field(default_factory=list)
    acked: dict[str, int] = field(default_factory=dict)
    families: int = 0
    recoveries: int = 0

    def __post_init__(self) -> None:
        self.owner = Owner("f0", 0, [])

    def act(self, who: Owner) -> None:
        what = self.chance.random()
        if what < 0.3:
            who.advance()
        elif what < 0.45:
            who.checkpoint()
        else:
            who.write_one(self.log, self.chance)
        if who.ledger.marked >= 0:
            self.acked[who.family] = who.ledger.marked

    def recover(self) -> None:
        """The owner dies, with what it had not written, or lives on as a zombie; somebody else reads the changelog."""
        self.zombies = [*self.zombies[-2:], self.owner] if self.with_zombies and self.chance.random() < 0.6 else self.zombies[:1]
        reading = checkpoint_selection.read(last_of_each_key(self.log))
        check(reading)
        found = reading.found.mark.turn if reading.found else -1
        assert found >= unburied(self.acked, self.log)
        assert found >= 0 or not self.acked, "an acknowledged state is gone altogether"
        if not self.with_zombies:
            assert found >= max(self.acked.values(), default=-1)
        self.families += 1
        self.recoveries += 1
        self.owner = Owner(f"f{self.families}", max(found, 0), list(last_of_each_key(self.log)))


@pytest.mark.parametrize("with_zombies", [True, False])
@given(seed=st.integers(0, 1 << 32))
def test_a_reader_finds_a_whole_state_that_no_acknowledged_mark_is_newer_than(with_zombies: bool, seed: int) -> None:
    world = World(random.Random(seed), with_zombies)
    for _ in range(250):
        if world.chance.random() < 0.05:
            world.recover()
        elif world.zombies and world.chance.random() < 0.3:
            world.act(world.chance.choice(world.zombies))
        else:
            world.act(world.owner)
    world.recover()
    assert world.recoveries >= 1


def whole(family: str, turn: int, ledger: CheckpointLedger | None = None) -> tuple[CheckpointLedger, CheckpointPlan]:
    ledger = ledger or CheckpointLedger(family)
    plan = ledger.plan(turn=turn, positions={"in": turn}, dumps=[("a", b"a%d" % turn), ("b", b"b%d" % turn)])
    return ledger, plan


def test_of_two_good_marks_the_higher_turn_is_the_state_and_the_order_of_keys_is_nothing() -> None:
    _, old = whole("old", 3)
    _, new = whole("new", 4)
    records = [*old.records, old.mark, *new.records, new.mark]
    for order in (records, records[::-1]):
        reading = checkpoint_selection.read(dict(order))
        assert reading.found is not None
        assert (reading.found.family, reading.found.mark.turn, reading.broken) == ("new", 4, 0)
        assert reading.found.chunks == {"a": b"a4", "b": b"b4"}


def test_a_torn_mark_is_counted_and_the_one_before_is_taken_whatever_the_order_of_keys() -> None:
    ledger, first = whole("f", 1)
    ledger.accept(first)
    second = ledger.plan(turn=2, positions={"in": 2}, dumps=[("a", b"a2")])
    ledger.accept(second)
    third = ledger.plan(turn=3, positions={"in": 3}, dumps=[("a", b"a3")])
    # Chunk a at turn 3 went to slot 0, which the mark of turn 1 named: that mark is torn from here on, that of turn 2 is not.
    records = [*first.records, first.mark, *second.records, second.mark, *third.records]
    for order in (list(dict(records).items()), list(dict(records).items())[::-1]):
        reading = checkpoint_selection.read(dict(order))
        assert reading.found is not None
        assert (reading.found.mark.turn, reading.broken) == (2, 1)
        assert reading.found.chunks == {"a": b"a2", "b": b"b1"}


def test_a_chunk_never_goes_to_the_slot_that_the_mark_in_force_names() -> None:
    ledger, plan = whole("f", 0)
    for turn in range(1, 6):
        ledger.accept(plan)
        in_force = {f"f/{name}/{slot}".encode() for name, (slot, *_) in ledger.chunks.items()}
        _, following = whole("f", turn, ledger)
        assert not in_force & {key for key, _ in following.records}
        assert following.mark[0] != plan.mark[0]
        plan = following


def test_tombstones_name_the_foreign_keys_once_and_only_those() -> None:
    ledger = CheckpointLedger("f", [b"old/a/0", b"old/mark/0"])
    _, plan = whole("f", 1, ledger)
    assert plan.tombstones == [b"old/a/0", b"old/mark/0"]
    ledger.accept(plan)
    ledger.buried()
    assert whole("f", 2, ledger)[1].tombstones == []


@pytest.mark.parametrize("garbage", [b"", b"1234567", b"\x00" * 8])
def test_a_chunk_cut_short_or_of_another_version_breaks_its_mark(garbage: bytes) -> None:
    _, plan = whole("f", 7)
    records: dict[bytes, bytes | None] = dict([*plan.records, plan.mark])
    records[plan.records[0][0]] = garbage
    assert checkpoint_selection.read(records) == ChangelogContents(None, 1)


def test_keys_that_are_not_ours_and_marks_that_are_not_marks_do_not_stop_a_recovery() -> None:
    _, plan = whole("f", 7)
    others: dict[bytes, bytes | None] = {
        b"\xff\xfe/x/0": b"?",
        b"no slash": b"?",
        b"g/mark/0": b"?",
        b"\xff/mark/1": plan.mark[1],
    }
    reading = checkpoint_selection.read({**others, **dict([*plan.records, plan.mark])})
    assert reading.found is not None
    assert (reading.found.mark.turn, reading.broken) == (7, 2)


def test_chunk_names_may_hold_slashes_even_behind_the_word_mark() -> None:
    ledger = CheckpointLedger("f")
    plan = ledger.plan(turn=1, positions={}, dumps=[("mark/0", b"x"), ("a/b/c", b"y")])
    reading = checkpoint_selection.read(dict([*plan.records, plan.mark]))
    assert reading.found is not None
    assert reading.found.chunks == {"mark/0": b"x", "a/b/c": b"y"}


def test_a_chunk_called_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="may not be called 'mark'"):
        CheckpointLedger("f").plan(turn=1, positions={}, dumps=[("mark", b"x")])


def test_a_chunk_of_any_size_comes_back_from_records_that_are_all_small_enough() -> None:
    big, small = random.Random(7).randbytes(20_001), b"x"
    ledger = CheckpointLedger("f", part=1_000)
    plan = ledger.plan(turn=1, positions={}, dumps=[("big", big), ("small", small), ("empty", b"")])
    assert max(len(value) for _, value in plan.records) <= 1_008
    assert len(plan.records) == 21 + 1 + 1
    for order in (plan.records, plan.records[::-1]):
        reading = checkpoint_selection.read(dict([*order, plan.mark]))
        assert reading.found is not None
        assert reading.found.chunks == {"big": big, "small": small, "empty": b""}


def test_marks_of_earlier_versions_are_read() -> None:
    """They have neither checksums nor, where there is one part, the number of parts."""
    data = b'{"turn":7,"positions":{"in":3},"chunks":{"a":[0,7],"b":[1,6,2]}}'
    assert CheckpointMark.decode(data).chunks == {"a": Slot(0, 7), "b": Slot(1, 6, 2)}
    records = {b"f/mark/0": data, b"f/a/0": bytes(8), b"f/b/1": bytes(8)}
    assert checkpoint_selection.read(records) == ChangelogContents(None, 1)


@pytest.mark.parametrize("damaged", range(3))
def test_a_chunk_that_was_changed_under_its_version_breaks_its_mark_and_the_one_before_counts(damaged: int) -> None:
    """Chunk `a` of turn 2 has two parts; the third is chunk `b`, which the mark of turn 1 has in its other slot."""
    ledger = CheckpointLedger("f", part=4)
    first = ledger.plan(turn=1, positions={"in": 1}, dumps=[("a", b"aaaa1111"), ("b", b"b1")])
    ledger.accept(first)
    second = ledger.plan(turn=2, positions={"in": 2}, dumps=[("a", b"aaaa2222"), ("b", b"b2")])
    records: dict[bytes, bytes | None] = dict([*first.records, first.mark, *second.records, second.mark])
    key, value = second.records[damaged]
    records[key] = value[:-1] + b"?"
    reading = checkpoint_selection.read(records)
    assert reading.found is not None
    assert (reading.found.mark.turn, reading.broken) == (1, 1)
    assert reading.found.chunks == {"a": b"aaaa1111", "b": b"b1"}
    unchecked = checkpoint_selection.read(records, checked=False)
    assert unchecked.found is not None
    assert unchecked.found.mark.turn == 2


def test_a_mark_without_chunks_is_a_state_only_if_it_was_written_so() -> None:
    key, value = CheckpointLedger("f").plan(turn=1, positions={"in": 1}, dumps=[]).mark
    written = checkpoint_selection.read({key: value})
    assert written.found is not None
    assert written.found.chunks == {}
    assert checkpoint_selection.read({key: b'{"turn":1,"positions":{"in":1},"chunks":{}}'}) == ChangelogContents(None, 1)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_mark_with_one_byte_changed_is_none(place: int, byte: int) -> None:
    _, plan = whole("f", 7)
    key, mark = plan.mark
    place %= len(mark)
    changed = mark[:place] + bytes([byte]) + mark[place + 1 :]
    assume(changed != mark)
    found = checkpoint_selection.read({**dict(plan.records), key: changed}).found
    assert found is None or b'"sum"' not in changed


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_mark_is_torn_when_any_part_is_missing_or_of_another_version(part: int) -> None:
    ledger = CheckpointLedger("f", part=4)
    plan = ledger.plan(turn=1, positions={}, dumps=[("a", b"0123456789")])
    for wrong in (None, b"\x00" * 8 + b"0123"):
        records: dict[bytes, bytes | None] = dict([*plan.records, plan.mark])
        records[plan.records[part][0]] = wrong
        assert checkpoint_selection.read(records) == ChangelogContents(None, 1)


def test_parts_that_a_chunk_no_longer_has_are_buried_after_the_mark_that_needs_them_no_more() -> None:
    ledger = CheckpointLedger("f", part=4)
    changelog: dict[bytes, bytes | None] = {}
    for turn, size in ((1, 12), (2, 12), (3, 2), (4, 2)):
        plan = ledger.plan(turn=turn, positions={}, dumps=[("a", b"x" * size)])
        changelog |= dict([*plan.records, plan.mark])
        ledger.accept(plan)
        assert checkpoint_selection.read(changelog).found is not None
        changelog |= dict.fromkeys(plan.tombstones)
        found = checkpoint_selection.read(changelog).found
        assert found is not None
        assert (found.mark.turn, dict(found.chunks)) == (turn, {"a": b"x" * size})
    assert {key for key, value in changelog.items() if value is not None} == {b"f/a/0", b"f/a/1", b"f/mark/0", b"f/mark/1"}


@given(
    st.integers(-1, 1 << 62),
    st.dictionaries(st.text(), st.integers(0, 1 << 62)),
    st.dictionaries(st.text(), st.builds(Slot, st.integers(0, 1), st.integers(0, 1 << 62), st.integers(1, 1 << 62), st.text())),
    st.none() | st.builds(InputDigests, st.integers(-1, 1 << 62), st.dictionaries(st.text(), st.binary(max_size=32))),
)
def test_a_mark_comes_back_as_it_was(
    turn: int, positions: dict[str, int], chunks: dict[str, Slot], inputs: InputDigests | None
) -> None:
    mark = CheckpointMark(turn, positions, chunks, inputs)
    assert CheckpointMark.decode(mark.encode()) == mark


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"turn":1,"positions":{}}',
        b'{"turn":"1","positions":{},"chunks":{}}',
        b'{"turn":1.5,"positions":{},"chunks":{}}',
        b'{"turn":true,"positions":{},"chunks":{}}',
        b'{"turn":Infinity,"positions":{},"chunks":{}}',
        b'{"turn":1,"positions":[],"chunks":{}}',
        b'{"turn":1,"positions":{},"chunks":{"a":[0]}}',
        b'{"turn":1,"positions":{},"chunks":{"a":[2,1]}}',
        b'{"turn":1,"positions":{},"chunks":{"a":7}}',
        b'{"turn":1,"positions":{},"chunks":{"a":[0,1,0]}}',
        b'{"turn":1,"positions":{},"chunks":{"a":[0,1,2,3]}}',
        b'{"turn":1,"positions":{},"chunks":{},"read":[]}',
        b'{"turn":1,"positions":{},"chunks":{},"read":{"digests":{}}}',
        b'{"turn":1,"positions":{},"chunks":{},"read":{"since":"0","digests":{}}}',
        b'{"turn":1,"positions":{},"chunks":{},"read":{"since":0,"digests":{"a":1}}}',
        b'{"turn":1,"positions":{},"chunks":{},"read":{"since":0,"digests":{"a":"x"}}}',
        b'{"turn":1,"positions":{},"chunks":{"\\ud800":[0,1]}}',
        b'{"turn":1,"positions":{"\\ud800":1},"chunks":{"a":[0,1]}}',
        b"[" * 100_000,
    ],
)
def test_bytes_that_are_not_a_mark_are_refused_with_a_sentence_that_quotes_them(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a checkpoint mark"):
        CheckpointMark.decode(data)


def test_marks_that_the_reader_does_not_believe_are_passed_over() -> None:
    _, old = whole("old", 3)
    _, new = whole("new", 4)
    records = dict([*old.records, old.mark, *new.records, new.mark])
    unbelieved = [CheckpointMark.decode(new.mark[1])]
    reading = checkpoint_selection.read(records, without=unbelieved)
    assert reading.found is not None
    assert (reading.found.family, reading.broken) == ("old", 0)
    unbelieved.append(reading.found.mark)
    assert checkpoint_selection.read(records, without=unbelieved) == ChangelogContents(None, 0)
