"""The list of guards: people find each of them in the docs."""

import re
from pathlib import Path

import pytest

from agents.logic.guards.guard_records import CAPPING, GUARDS, GuardRecord, advised, in_words
from agents.logic.updates import update_guards
from schemas.decisions.pod_updates import UpdateRefused
from schemas.facts.pods import ContainerSeen
from schemas.names import Amounts
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, when
from tests.support.updater_log import SHOP, UpdaterLog, recommended

CLUSTER_PAGE = Path(__file__).parents[4] / "docs/cluster.md"
EXPLAINED_ABOVE = {"mode", "paused"}
"""Guards that are what the page is about, so that the table leaves them out."""


def test_each_guard_has_a_row_in_the_docs_and_the_docs_name_no_other() -> None:
    table = CLUSTER_PAGE.read_text().partition("| guard | when | setting |")[2].partition("\n\n")[0]
    documented = [name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])]
    assert sorted(documented) == sorted(guard.name for guard in GUARDS if guard.name not in EXPLAINED_ABOVE)


def test_each_guard_has_a_judgement_and_no_judgement_lacks_a_record() -> None:
    assert list(update_guards._JUDGEMENTS) == [guard.name for guard in GUARDS]


WHY = "this is why"


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_wherever_people_look_a_guard_is_named_with_what_to_change(
    guard: GuardRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in the status of VPAs, of which tests/agents/logic/conditions/test_conditions_stage.py has the test."""
    monkeypatch.setattr(update_guards, "_JUDGED", ((guard.name, lambda *_: WHY),))
    log, seen = UpdaterLog(tmp_path / "log.jsonl"), ContainerSeen("app", Amounts(None, GIB), Amounts())
    pods = [pod(f"api-{n}", START, containers=(seen,)) for n in range(3)]
    log.turn(START, VerticalPolicyChanged(when(START), "*", "1", UpdateMode.RECREATE), *pods)
    made = recommended(START + 10 * MINUTE, API)
    log.turn(START + 10 * MINUTE, made)
    [refused] = log.decide()
    assert isinstance(refused, UpdateRefused)
    assert (refused.guard, refused.reason) == (guard.name, WHY)
    with FileLog(log.path) as file:
        file.append([Codec(SHOP).encode(made, topic="recommendations", key=API.key, partition=0, source="/ullage/source/test")])

    def said(*words: str) -> str:
        assert log.run(*words) == 0
        return " ".join("".join(capsys.readouterr()).split())

    assert in_words(guard.name, WHY) in said("why-not", "web/api-0")
    # What only waits is counted there, and not explained.
    assert (f"after '{guard.name}'" if guard.passes else in_words(guard.name, WHY)) in said("plan")
    why = said("why", "web/api-0")
    assert guard.name in why
    assert advised(guard.name, WHY) in why
    status, recommendations = said("status"), said("recommendations")
    assert (in_words(guard.name, WHY) in status) == guard.stops
    assert (in_words(guard.name, WHY) in recommendations) == (guard.caps is not None)
    if guard.caps is not None:
        assert f"1 by {guard.caps or guard.name}" in status


def test_what_does_not_pass_by_itself_says_what_to_change_and_is_said_again() -> None:
    """But for what `status` says of the whole cluster, and the mode, which somebody chose for each workload."""
    of_the_cluster = {"mode", "paused", "blind", "stale"}
    assert {guard.name for guard in GUARDS if not guard.passes and not guard.lasting} == of_the_cluster
    in_their_sentence = {"oom-bound", "capped"}
    assert {guard.name for guard in GUARDS if not guard.advice} == in_their_sentence
    assert set(CAPPING) >= {guard.name for guard in GUARDS if guard.stops}
