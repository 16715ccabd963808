"""Pseudonyms: no name is left, equal names stay equal, and every event can still be read."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from schemas.catalogue import CATALOGUE
from streams.clock_rules import ClockRecord
from streams.codec.event_codec import Codec
from streams.errors import BadInput
from streams.incidents.pseudonyms import WITHHELD, Pseudonyms, key_of
from streams.log.log_port import Record
from streams.topics import Topics
from tests.support import examples
from tests.support.golden_wire import encoded

KEY = b"sixteen bytes or more"
PRIVATE = (
    "cart",
    "shop",
    "prod",
    "checkout",
    "ip-10-0-0-1",
    "workers-a",
    "i-0a1b2c3d",
    "lt-0abc",
    "0c6d2f0e",
    "eu-west-1a",
    "INC-4711",
)
"""Names, uids and free texts of the examples."""


def taken(event: object) -> Record:
    new = encoded(event)  # type: ignore[arg-type]  # one of the examples
    return Record(new.topic, new.partition, 7, new.key, new.value, new.headers, 5)


@pytest.mark.parametrize("event", examples.EVENTS, ids=lambda event: type(event).__name__)
def test_no_name_is_left_in_any_event_and_each_can_still_be_read(event: object) -> None:
    shown = Pseudonyms(KEY, "ullage", 4).record(taken(event))
    everything = b" ".join(
        [shown.key or b"", shown.value or b"", *(data for name, data in shown.headers if not name.endswith("cause"))]
    )
    assert [name for name in PRIVATE if name.encode() in everything] == []
    assert type(Codec(Topics()).decode(shown)) is type(event)
    assert CATALOGUE.of(type(event))


def test_keys_ids_subjects_and_values_go_on_agreeing() -> None:
    names = Pseudonyms(KEY, "ullage", 4)
    recommended = next(each for each in examples.EVENTS if type(each).__name__ == "RequestsRecommended")
    shown = names.record(taken(recommended))
    body = orjson.loads(shown.value or b"")
    workload = "/".join(names.name(part) if part != "Deployment" else part for part in ("prod", "shop", "Deployment", "cart"))
    assert "/".join(body["workload"][part] for part in ("cluster", "namespace", "kind", "name")) == workload
    assert body["id"].endswith(f"/requests/{workload}")
    assert dict(shown.headers)["ce_id"].decode() == body["id"]


def test_the_same_name_is_always_the_same_pseudonym_under_the_same_key_and_another_under_another() -> None:
    one, again, other = (Pseudonyms(key, "ullage", 4) for key in (KEY, KEY, b"another key of sixteen bytes"))
    assert one.name("cart") == again.name("cart") != other.name("cart")
    assert one.fingerprint == again.fingerprint != other.fingerprint


def test_a_cluster_stays_in_its_partition() -> None:
    topics = Topics(partitions=7)
    names = Pseudonyms(KEY, "ullage", 7)
    assert [topics.partition_of(names.name(n)) for n in "abcdefgh"] == [topics.partition_of(n) for n in "abcdefgh"]


def test_labels_lose_names_and_values_whatever_their_keys_are_called_and_sentences_are_withheld() -> None:
    value = {"labels": {"kind": "secret-a", "metrics": "secret-b"}, "reason": "pod secret is away", "guard": "budget"}
    record = Record("ullage.pod-changes.v1", 0, 0, b"metrics", orjson.dumps(value))
    shown = Pseudonyms(KEY, "ullage", 4).record(record)
    body = orjson.loads(shown.value or b"")
    assert shown.key != b"metrics"
    assert "secret" not in str(body)
    assert "metrics" not in body["labels"]
    assert (body["reason"], body["guard"]) == (WITHHELD, "budget")


def test_what_is_no_json_is_withheld_and_a_tick_stays_what_it_is() -> None:
    names = Pseudonyms(KEY, "ullage", 4)
    assert names.record(Record("t", 0, 0, b"k", b"\xffsecret")).value == b'"(withheld)"'
    tick = ClockRecord(5, "name", None, {}).encode("t")
    record = Record("t", 0, 0, tick.key, tick.value)
    assert names.record(record) == record


def test_a_key_is_made_once_for_its_owner_only_and_a_short_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = key_of(path)
    assert key_of(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short")
    with pytest.raises(BadInput, match="has 5 bytes"):
        key_of(path)


def test_a_file_that_is_no_key_is_refused_without_waiting_or_filling_the_memory(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    for name, why in (
        ("pipe", "cannot be read: it is no file"),
        (".", "cannot be read: it is no file"),
        ("large", "has more than"),
    ):
        with pytest.raises(BadInput, match=f"^the key for pseudonyms in '.*' {why}"):
            key_of(tmp_path / name)


def test_a_key_may_be_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff" * 32)
    assert key_of(tmp_path / "key") == b"\xff" * 32


def test_the_version_of_a_policy_is_what_its_owner_wrote_and_that_of_rules_is_a_digest() -> None:
    policy = next(each for each in examples.EVENTS if type(each).__name__ == "VerticalPolicyChanged")
    rules = next(each for each in examples.EVENTS if type(each).__name__ == "StageRulesChanged")
    shown = Pseudonyms(KEY, "ullage", 4)
    told = shown.record(taken(replace(policy, version="cart-team-2024")))  # type: ignore[type-var]  # an event
    assert b"cart-team" not in (told.value or b"")
    assert rules.version.encode() in (shown.record(taken(rules)).value or b"")  # type: ignore[union-attr]  # it has one
