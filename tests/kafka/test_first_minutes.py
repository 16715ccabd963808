"""A stranger's first minutes: `make demo` in a fresh copy, then every command of README's first block as it is written."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kafka.test_demo import left_behind

ROOT = Path(__file__).parents[2]


def _copy(folder: Path) -> Path:
    """The files of the repository as they are now, without what was generated."""
    named = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in named:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_of_readme_works_right_after_the_demo(tmp_path: Path) -> None:
    project = _copy(tmp_path)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("ULLAGE_", "MAKE", "VIRTUAL_ENV"))}
    marked = plain | {"DEMO_MARK": str(project)}
    demo = subprocess.run(["make", "demo"], cwd=project, env=marked, capture_output=True, text=True, timeout=600, check=False)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert " packages" in demo.stdout, "no silent minutes"
    for said in ("containers OOM-killed", "node-hours", "why updater/", "what to try next"):
        assert said in demo.stdout
    assert left_behind(project) == []
    listed = subprocess.run([".venv/bin/python", "-m", "pip", "list"], cwd=project, capture_output=True, text=True, check=True)
    assert not {"moto", "mypy", "boto3", "pytest"} & {line.split()[0] for line in listed.stdout.splitlines()}
    [block] = re.findall(r"After `make demo`.*?```sh\n(.*?)```", (project / "README.md").read_text(), re.DOTALL)
    assert block.count("ullage ") > 5
    ran = subprocess.run(
        ["bash", "-euxc", block], cwd=project, env=plain, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert "every decision is as published" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
