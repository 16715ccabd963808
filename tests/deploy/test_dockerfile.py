"""deploy/Dockerfile and its lock, checked without a Docker engine."""

import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from agents.settings import loading

ROOT = Path(__file__).parents[2]
Steps = list[tuple[str, str]]
Locked = dict[str, frozenset[str]]


@pytest.fixture(scope="module")
def steps() -> Steps:
    """Instruction and argument of every step, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in lines)]


def _of(steps: Steps, word: str) -> list[str]:
    return [rest for each, rest in steps if each == word]


def _last_stage(steps: Steps) -> Steps:
    start = max(number for number, (word, _) in enumerate(steps) if word == "FROM")
    return steps[start:]


def _locked(path: str) -> Locked:
    """`name==version` to its hashes; markers are part of the name."""
    text = (ROOT / path).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(" --hash=") for line in text.splitlines() if re.match(r"[a-z0-9]", line)]
    return {" ".join(name.split()): frozenset(h.strip() for h in hashes) for name, *hashes in lines}


def test_every_stage_starts_from_the_same_pinned_slim_python(steps: Steps) -> None:
    images = [rest.split()[0] for rest in _of(steps, "FROM")]
    stages = {words[2] for rest in _of(steps, "FROM") if len(words := rest.split()) > 1}
    images = [image for image in images if image not in stages]
    assert len(images) == 2
    assert len(set(images)) == 1
    assert re.fullmatch(r"python:3\.(11|12|13|14)\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", images[0])


def test_the_image_runs_our_program_as_a_plain_user_that_compose_names_too(steps: Steps) -> None:
    last = _last_stage(steps)
    assert _of(last, "USER") == ["10001:10001"]
    assert last.index(("USER", "10001:10001")) < last.index(("ENTRYPOINT", '["ullage"]'))
    assert any("useradd --uid 10001 " in rest for rest in _of(last, "RUN"))
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert {service["user"] for service in services.values() if "build" in service} == {"10001:10001"}


def test_the_settings_it_bakes_in_are_settings(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ULLAGE_")]:
        monkeypatch.delenv(name)
    baked = dict(part.split("=", 1) for part in " ".join(_of(_last_stage(steps), "ENV")).split())
    for name, value in baked.items():
        monkeypatch.setenv(name, value)
    metrics = loading.load().settings.metrics
    assert (metrics.host, metrics.port) == ("0.0.0.0", 9102)  # noqa: S104  # inside the container's own network
    assert _of(_last_stage(steps), "EXPOSE") == ["9102"]


def test_what_is_copied_is_there_and_reaches_the_builder(steps: Steps) -> None:
    sources = [path for rest in _of(steps, "COPY") if not rest.startswith("--from=") for path in rest.split()[:-1]]
    assert {"schemas", "streams", "agents", "pyproject.toml", "deploy/requirements.lock"} <= set(sources)
    assert [path for path in sources if not (ROOT / path).exists()] == []
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignore[1] == "*"
    assert {line.removeprefix("!") for line in ignore if line.startswith("!")} == set(sources)


def test_packages_come_from_the_lock_with_hashes_and_nothing_else_does(steps: Steps) -> None:
    installs = [part for rest in _of(steps, "RUN") for part in rest.split("&&") if "pip install" in part]
    assert [i for i in installs if "--require-hashes" not in i and "--no-deps --no-build-isolation ." not in i] == []
    assert [i for i in installs if "--require-hashes" in i and "--only-binary :all:" not in i] == []
    assert sum("--require-hashes" in i and "-r deploy/requirements.lock" in i for i in installs) == 1
    assert not any(word in rest for _, rest in steps for word in ("latest", "http:", "https:", "--index-url", "curl", "apt-get"))


def test_the_image_has_the_versions_and_hashes_of_the_projects_own_lock() -> None:
    runtime, whole = _locked("deploy/requirements.lock"), _locked("requirements.lock")
    assert {name: hashes for name, hashes in runtime.items() if whole.get(name) != hashes} == {}
    assert all(runtime.values())


def test_the_image_has_what_the_program_needs_and_nothing_of_development_or_the_embedded_broker() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    there = {name.partition("==")[0] for name in _locked("deploy/requirements.lock")}
    extras = [*project["optional-dependencies"]["dev"], *project["optional-dependencies"]["broker"]]
    assert {_name(need) for need in project["dependencies"]} <= there
    assert {_name(need) for need in extras} & there == {"setuptools"}


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert found is not None
    return found[0].lower()


def test_the_image_carries_a_list_of_its_packages_by_a_tool_that_does_not_stay(steps: Steps) -> None:
    (command,) = [rest for rest in _of(steps, "RUN") if "cyclonedx-py" in rest]
    assert command.endswith("-o /opt/ullage/sbom.cdx.json /opt/ullage")
    assert _of(_last_stage(steps), "COPY") == ["--from=sbom /opt/ullage /opt/ullage"]
    assert "cyclonedx-bom" not in {name.partition("==")[0] for name in _locked("deploy/requirements.lock")}
    assert all(_locked("deploy/sbom.lock").values())
