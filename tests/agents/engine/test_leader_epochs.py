from agents.engine.checkpoint_selection import CheckpointMark
from agents.engine.input_digest import EpochsRead


def test_of_each_epoch_the_end_of_what_was_read_is_kept() -> None:
    read = EpochsRead()
    for epoch, upto in ((3, 5), (3, 9), (4, 12), (-1, 13)):
        read.take("control", epoch, upto)
    assert read.epochs() == {"control": [(3, 9), (4, 12)]}


def test_what_was_seen_is_forgotten_but_for_the_newest() -> None:
    """Its leader may go before the next look, and take what it had."""
    read = EpochsRead({"control": [(3, 9), (4, 12)], "clock": [(1, 7)]})
    asked = read.epochs()
    read.take("control", 5, 14)
    read.seen(asked)
    assert read.epochs() == {"control": [(5, 14)], "clock": [(1, 7)]}
    read = EpochsRead({"control": [(3, 9), (4, 12)]})
    read.seen(read.epochs())
    assert read.epochs() == {"control": [(4, 12)]}


def test_a_mark_keeps_them() -> None:
    mark = CheckpointMark(7, {"control": 12}, {}, epochs={"control": [(3, 9), (4, 12)]})
    assert CheckpointMark.decode(mark.encode()) == mark
