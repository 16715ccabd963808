"""YAML of people: whatever a file holds, it is read or refused with one sentence, and at once."""

import contextlib
import random
import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agents.commands.change import policy_file
from agents.demo import scenario_file
from agents.settings import loading
from streams import yaml_reader
from streams.errors import BadInput

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))
HOSTILE = {
    "aliases of aliases": (LAUGHS, "more than 200000 values, with what its aliases stand for"),
    "merges of merges": (MERGES, "more than 200000 values"),
    "an alias inside of itself": ("a: &a [*a]", "the alias '*a' stands inside of what it stands for"),
    "deep lists": ("[" * 100_000, "nested more than 64 deep"),
    "deep mappings": ("{a: " * 100_000, "nested more than 64 deep"),
    "deep blocks": ("".join(" " * n + "- a:\n" for n in range(0, 2000, 2)), "nested more than 64 deep"),
    "many values": ("- 1\n" * 300_000, "more than 200000 values"),
    "many bytes": ("#" * (5 << 20), "more than 4194304 bytes"),
    "a long integer": ("a: " + "9" * 5_000, "a number of 5000 characters, at line 1"),
    "a long float": ("a: 1e" + "9" * 5_000, "a number of 5002 characters"),
    "a long hexadecimal": ("a: 0x" + "f" * 500, "a number of 502 characters"),
    "a long sexagesimal": ("a: " + "1:" * 100 + "1", "a number of 201 characters"),
    "a key twice": ("mode: 1\nb: 2\nmode: 3", "the key 'mode' stands twice, at line 3"),
    "a key twice, inside": ("a:\n  - {b: 1, b: 2}", "the key 'b' stands twice, at line 2"),
    "a day that is none": ("a: 2026-02-31", "cannot be read"),
    "a tag of Python": ("!!python/object/apply:os.system [echo]", "is no YAML"),
    "a list as a key": ("{[a]: b}", "is no YAML"),
    "two documents": ("a: 1\n---\nb: 2", "is no YAML"),
    "a NUL": ("a: \0", "is no YAML"),
    "half of a list": ("a: [", "is no YAML"),
}
READERS = {
    "policy apply": policy_file.read,
    "simulate": scenario_file.read,
    "config": lambda file: loading.load(file=file),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_refused_with_its_bound_and_its_place(tmp_path: Path, name: str) -> None:
    text, why = HOSTILE[name]
    file = tmp_path / "people.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=f"^the file .*{why.replace('*', '.')}") as refused:
        yaml_reader.read_file(file, "the file 'people.yaml'")
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_so_it_is_by_every_command_that_reads_one(tmp_path: Path, reader: str, name: str) -> None:
    file = tmp_path / "people.yaml"
    file.write_text(HOSTILE[name][0], encoding="utf-8")
    with pytest.raises(BadInput, match=r"people\.yaml"):
        READERS[reader](file)


def test_bytes_that_are_no_text_and_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name, why in {"bytes": "no text in UTF-8", "missing": "No such file", ".": "directory"}.items():
        with pytest.raises(BadInput, match=why):
            yaml_reader.read_file(tmp_path / name, "the file")


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | st.text(string.printable),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(string.ascii_letters), inner, max_size=5),
    max_leaves=30,
)


@given(TREES)
def test_an_honest_tree_is_read_as_yaml_reads_it(tree: object) -> None:
    text = yaml.safe_dump(tree)
    assert yaml_reader.parse(text, "the file") == yaml.safe_load(text)


@given(st.text(st.sampled_from("&*a: []{}-\n<!'\"|>%@#0123456789eE.x?,\t"), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        yaml_reader.parse(text, "the file")


def test_aliases_within_reason_are_read() -> None:
    text = "base: &base {cpu: 1, memory: 2}\nweb:\n  <<: *base\n  cpu: 3\nlist: [*base, *base]"
    assert yaml_reader.parse(text, "the file") == yaml.safe_load(text)


def test_a_large_file_of_people_is_read() -> None:
    chance = random.Random(1)
    text = "".join(f"- {{target: demo/ns{n}/*, mode: 'Off', budget: {chance.random()}}}\n" for n in range(20_000))
    assert len(list(yaml_reader.parse(text, "the file") or ())) == 20_000  # type: ignore[call-overload]
