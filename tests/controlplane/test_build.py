"""Building the control plane: what it says when it cannot, and that it is done once. Go is a small script here, except once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import build

GO = """#!/bin/sh
echo "$*" >>"$GO_CALLS"
case "$1 $2" in
"env GOVERSION") echo "${GO_SAYS:-go1.26.8}" ;;
"env GOCACHE") printf '%s\\n%s\\n' "$HOME" "$HOME" ;;
"env GOPROXY") echo off ;;
"mod download") printf '{"Dir": "%s", "Sum": "%s"}' "$GO_MODULES" "${GO_SUM}" ;;
build*)
    test -z "$GO_BREAKS" || { echo "syntax error" >&2; exit 2; }
    while [ "$1" != "-o" ]; do shift; done
    sleep 0.2
    case "$2" in */) mkdir -p "$2" && touch "$2/kwok" ;; *) touch "$2" ;; esac ;;
esac
"""


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """An environment with the small script as Go, an empty cache, and modules that have the files."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    for name in (build.VPA_CRDS, *build.STAGES):
        (tmp_path / "modules" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "modules" / name).write_text(f"from {name}")
    told = {"GO_CALLS": str(tmp_path / "calls"), "GO_MODULES": str(tmp_path / "modules"), "GO_SUM": build.VPA_SUM}
    return {"PATH": f"{go.parent}:/bin:/usr/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), **told}


def begin(environment: dict[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, str(Path(build.__file__))]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(environment: dict[str, str]) -> tuple[int, str, str]:
    """Exit code, what it printed, and what it complained of."""
    process = begin(environment)
    out, complaint = process.communicate(timeout=60)
    return process.returncode, out.strip(), complaint


def compiled(environment: dict[str, str]) -> int:
    return sum(line.startswith("build ") for line in Path(environment["GO_CALLS"]).read_text().splitlines())


def test_a_build_makes_one_folder_with_programs_and_files(given: dict[str, str]) -> None:
    code, out, _ = run(given)
    assert code == 0
    assert sorted(path.name for path in Path(out).iterdir()) == ["bin", "crds", "stages"]
    assert sorted(path.name for path in (Path(out) / "bin").iterdir()) == ["etcd", "kwok"]
    assert (Path(out) / "crds" / "vpa-v1-crd-gen.yaml").read_text() == f"from {build.VPA_CRDS}"
    assert len(list((Path(out) / "stages").iterdir())) == len(build.STAGES)


def test_what_is_built_is_not_built_again(given: dict[str, str]) -> None:
    first = run(given)[1]
    assert compiled(given) == 2
    assert run(given) == (0, first, "")
    assert compiled(given) == 2


def test_of_two_builds_at_once_the_second_waits_and_builds_nothing(given: dict[str, str]) -> None:
    both = [begin(given), begin(given)]
    ends = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert ends[0][0] == ends[1][0]
    assert sum("waiting for it" in complaint for _, complaint in ends) <= 1
    assert compiled(given) == 2


def test_a_build_that_breaks_says_how_and_leaves_no_half(given: dict[str, str]) -> None:
    code, out, complaint = run({**given, "GO_BREAKS": "1"})
    assert (code, out) == (1, "")
    assert "'go build' ended with code 2: syntax error" in complaint
    assert [path.suffix for path in (Path(given["XDG_CACHE_HOME"]) / "ullage" / "controlplane").iterdir()] == [".lock"]
    assert run(given)[0] == 0


def test_what_a_killed_build_left_is_removed_by_the_next(given: dict[str, str]) -> None:
    made = Path(run(given)[1])
    torn = made.rename(made.with_name(f"{made.name}-torn"))
    assert run(given)[0] == 0
    assert made.is_dir()
    assert not torn.exists()


def test_without_go_it_says_which_one_is_needed(given: dict[str, str], tmp_path: Path) -> None:
    code, _, complaint = run({**given, "PATH": str(tmp_path)})
    assert code == 1
    assert "No 'go' on the PATH: the control plane is built with Go 1.26 or newer." in complaint


@pytest.mark.parametrize("version", ["go1.25.9", "go1.9", "devel +abc"])
def test_an_older_go_is_refused_with_its_version(given: dict[str, str], version: str) -> None:
    code, _, complaint = run({**given, "GO_SAYS": version})
    assert code == 1
    assert f"Go is '{version}', and Kubernetes {build.VERSION} needs 1.26 or newer." in complaint


def test_types_with_another_sum_are_refused(given: dict[str, str]) -> None:
    code, _, complaint = run({**given, "GO_SUM": "h1:other"})
    assert code == 1
    assert f"has the sum 'h1:other' where '{build.VPA_SUM}' is expected" in complaint


def test_without_a_proxy_the_real_go_fails_with_a_sentence(given: dict[str, str], tmp_path: Path) -> None:
    real = {**given, "PATH": os.environ["PATH"], "GOPROXY": "off", "GOMODCACHE": str(tmp_path / "mod"), "GOFLAGS": "-modcacherw"}
    code, _, complaint = run(real)
    assert code == 1
    assert f"The module '{build.VPA}' could not be had from the Go module proxy 'off'" in complaint


def test_a_full_disk_is_told_before_anything_is_built(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(build, "NEEDED_BYTES", 10**18)
    with pytest.raises(build.BuildError, match=r"GB are free for '.*'; building needs 1000000000.0 GB"):
        build.ensure()
    assert compiled(given) == 0
