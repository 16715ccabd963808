"""What follows from an EHPA is said in its status, with the causes of what is left out."""

import pytest

from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.replica_objects import ReplicaObjects

NIGHT = {"name": "night", "start": "0 1 * * *", "end": "0 5 * * *", "targetReplicas": 3}


def _left_out(*crons: dict[str, object]) -> tuple[str, ...]:
    ehpa = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 9,
            "crons": list(crons),
        },
    }
    found = ReplicaObjects(LabelPropagation()).hpa(ehpa, pods=(), forecast=None, now=1e9)
    assert found.manifest is not None
    return tuple(found.left_out)


@pytest.mark.parametrize(
    ("crons", "words"),
    [
        ([{**NIGHT, "timezone": "Mars/Olympus"}], "Mars/Olympus"),
        ([{**NIGHT, "start": "61 * * * *"}], "cron 'night'"),
        ([{**NIGHT, "start": "0 0 30 2 *"}], "never comes"),
        ([{**NIGHT, "end": "0 1 * * *"}], "cron 'night' ends when it starts"),
        ([NIGHT, {**NIGHT, "end": "0 6 * * *"}], "two crons are called 'night'"),
    ],
)
def test_crons_that_make_no_sense_are_named_with_the_cause(crons: list[dict[str, object]], words: str) -> None:
    assert any(words in sentence for sentence in _left_out(*crons))


def test_crons_that_make_sense_leave_nothing_to_say() -> None:
    assert _left_out(NIGHT, {**NIGHT, "name": "noon", "start": "0 11 * * *", "end": "0 13 * * *", "timezone": "UTC"}) == ()
