"""What recommenders remember, out of the newest good checkpoints in their changelog, and as the checkpoints of upstream's kind.

Nothing is replayed. A state that was written in a form that this program does not write is refused, in a sentence: what is read
must be what would be written.
"""

import struct
from collections.abc import Iterator
from datetime import timedelta

from msgspec import MsgspecError

from agents.engine import checkpoint
from agents.engine.checkpoint import StoredState
from agents.engine.turn import EPOCH
from agents.logic.vertical.checkpoint_export import export
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.recommender import NAME, Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.settings.tree import Settings
from schemas.facts.vpa_checkpoints import CheckpointSeen
from schemas.names import Workload
from streams.errors import BadInput
from streams.log.port import Log
from streams.topics import state_topic

_AT_ONCE = 500


def checkpoints(log: Log, settings: Settings) -> Iterator[CheckpointSeen]:
    """The checkpoints of all VPAs of all clusters, partition by partition. Raises BadInput when there is no state at all."""
    topic = state_topic(settings.worker.name, NAME)
    some = False
    for partition in range(log.partitions(topic)):
        reading = checkpoint.read(_last(log, topic, partition))
        if reading.found is not None:
            some = True
            yield from _of(restored(settings.vertical, partition, reading.found), reading.found.mark.turn)
        elif reading.broken:
            raise BadInput(f"partition {partition} of '{topic}' has {reading.broken} checkpoints, and none of them is whole")
    if not some:
        raise BadInput(f"there is no checkpoint in '{topic}' yet: has a worker named '{settings.worker.name}' run?")


def restored(settings: VerticalSettings, partition: int, found: StoredState) -> Recommender:
    """The recommender that wrote this checkpoint. Raises BadInput for one of another form."""
    state = Recommender(settings, partition)
    for name, data in sorted(found.chunks.items()):
        try:
            state.load(name, data)
            same = state.dump(name) == data
        except (KeyError, ValueError, IndexError, TypeError, struct.error, MsgspecError) as error:
            raise _strange(partition, found, name, f"{type(error).__name__}: {error}") from error
        if not same:
            raise _strange(partition, found, name, "what was read of it is not all there is")
    return state


def _of(state: Recommender, turn: int) -> Iterator[CheckpointSeen]:
    """By VPA and container. A recommender knows all VPAs, and the usage of its own workloads."""
    members = ContainerIndex(state.usage, state.said, state.policies, state.settings)
    members.add(state.usage.aggregates.keys())
    at = EPOCH + timedelta(milliseconds=turn)
    targets = {held.policy.target for held in state.policies.vpas.values()} - {""}
    for target in sorted(targets):
        yield from export(state.intake, members, Workload.parse(target), at)


def _last(log: Log, topic: str, partition: int) -> dict[bytes, bytes | None]:
    """The last record of each key."""
    last: dict[bytes, bytes | None] = {}
    position, end = log.begin(topic, partition), log.end(topic, partition)
    while position < end and (records := log.poll({(topic, partition): position}, limit=_AT_ONCE)):
        for record in records:
            last[record.key or b""] = record.value
        position = records[-1].offset + 1
    return last


def _strange(partition: int, found: StoredState, chunk: str, why: str) -> BadInput:
    place = f"partition {partition} of stage '{NAME}' at turn {found.mark.turn}"
    return BadInput(
        f"the state of {place} is of another form than this program's, at '{chunk}' ({why}): use the version that wrote it"
    )
