"""Runs `ullage policy new`, `lint` and `test`: policies written as code, from an empty file to a score card."""

import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import agents
from agents.commands.compare import comparison_command
from agents.commands.compare.comparison_command import ComparisonFlags, Gates
from agents.policies import policy_limits, policy_sources, policy_trial
from agents.policies.policy_limits import PolicyLimits
from agents.policies.policy_sources import PolicySource
from agents.settings.all_settings import Settings
from agents.terminal.output import note, sentence
from schemas.units import Bytes, Seconds
from streams.errors import BadInput

_FOUND = 1
"""The exit code when something is wrong with the policy."""


def limits(cpu: float, mebibytes: int) -> PolicyLimits:
    """The limits of a call. Raises BadInput for an invalid one."""
    if not 0.0 < cpu <= 3600.0:  # noqa: PLR2004  # stated in the sentence below
        raise BadInput(f"--seconds {cpu:g} is no limit: give more than 0 and at most 3600")
    if not 0 < mebibytes <= 1 << 20:
        raise BadInput(f"--memory {mebibytes} is no limit: give 1 to {1 << 20} MiB")
    return PolicyLimits(Seconds(cpu), Bytes(mebibytes << 20))


def new(file: Path) -> None:
    """Write a small policy that works. Raises BadInput where there is a file."""
    if file.suffix != ".py":
        raise BadInput(f"'{file}' is no Python file: a policy's file ends in .py")
    policy_sources.check_name(file.stem, str(file))
    try:
        # `x` refuses a file that is there, also one that has come since a look
        with file.open("x", encoding="utf-8") as out:
            out.write(TEMPLATE)
    except FileExistsError:
        raise BadInput(f"'{file}' is there already, and is left as it is") from None
    except OSError as error:
        raise BadInput(f"'{file}' cannot be written: {error.strerror}") from error
    note(f"wrote {file}; try `ullage policy test {shlex.quote(str(file))}`")


def lint(text: str, limits: PolicyLimits) -> int:
    """Check a policy's syntax, purity and types, then run it under limits; 1 if there is a fault."""
    source = policy_sources.read(text)
    faults = [f"{source.where}:{fault.line}: {fault.sentence}" for fault in source.faults()]
    if not faults:
        # only now: code with a fault is not run
        faults = [*_ran(source, text, limits), *_type_faults(source)]
    for fault in faults:
        sentence(fault)
    note(f"{len(faults)} found in {source.where}" if faults else f"{source.reference} is a policy")
    return _FOUND if faults else 0


def test(settings: Settings, text: str, limits: PolicyLimits) -> int:
    """Try a policy on made-up containers in two processes, and score it on a made-up trace beside the built-in estimator."""
    source = policy_sources.read(text)
    # two processes: what depends on hash seeds or memory addresses answers alike within one
    first, second = (policy_limits.run_limited(source.name, limits, policy_trial.tried, text) for _ in range(2))
    unlike = first.unlike or second.unlike
    if not unlike and first.digest != second.digest:
        unlike = "in another process, it answers otherwise"
    sentence(f"policy {source.reference}")
    sentence(f"deterministic: {'yes' if not unlike else f'no; {unlike}'}")
    # the faster of two, since a machine that is busy makes a run slower and never faster
    sentence(f"time: {min(first.seconds, second.seconds) * 1000:.2f} ms for 1,000 containers")
    with TemporaryDirectory(prefix="ullage-policy-") as folder:
        flags = ComparisonFlags((), "table", None, None, baseline="default")
        comparison_command.compare(settings, policy_trial.write_trace(Path(folder)), (text,), flags, Gates())
    return _FOUND if unlike else 0


def _ran(source: PolicySource, text: str, limits: PolicyLimits) -> list[str]:
    """The faults of a run of the policy, in which it can only use what is allowed, under limits."""
    try:
        trial = policy_limits.run_limited(source.name, limits, policy_trial.tried, text)
    except BadInput as error:
        return [f"{source.where}: {error}"]
    return [f"{source.where}: {trial.unlike}"] if trial.unlike else []


def _type_faults(source: PolicySource) -> list[str]:
    """The faults that mypy finds, if it is installed."""
    if importlib.util.find_spec("mypy") is None:
        note("mypy is not installed, so of the types only the declaration of `recommend` was checked")
        return []
    root = str(Path(agents.__file__).parents[1])
    with TemporaryDirectory(prefix="ullage-types-") as folder:
        # a cache of its own, which goes with the folder
        options = ["--strict", "--follow-imports=silent", "--no-error-summary", "--no-color-output", "--cache-dir", folder]
        command = [sys.executable, "-m", "mypy", *options, str(source.where)]
        mypy = subprocess.run(  # noqa: S603  # our own arguments; mypy reads the file and does not run it
            command, env={**os.environ, "MYPYPATH": root}, capture_output=True, text=True, check=False
        )
    # mypy exits with 1 for faults in the file, and with 2 for its own
    if mypy.returncode > 1:
        note(f"mypy did not work, so types are not checked: {mypy.stderr.strip()[:300]}")
        return []
    return [line for line in mypy.stdout.splitlines() if ": error:" in line]


# The file that `ullage policy new` writes: a small policy that works, with comments that say what to change.


TEMPLATE = '''"""A policy of Ullage: what containers should request, from what is known of their usage.

Try it with `ullage policy lint FILE`, `ullage policy test FILE` and `ullage backtest RECORDING --policy FILE`. Let a worker say
what it would recommend with `--set vertical.shadow_policy=FILE`, and decide by it with `--set vertical.policy=FILE`.
"""

import numpy as np

from agents.logic.vertical.policy_code import EvidenceColumns, PolicyState, RecommendedColumns, SampleColumns, StateColumn

HEADROOM = 1.2
"""Memory above the peaks that are remembered."""
HALF_LIFE = 6 * 3600.0
"""Seconds in which a remembered peak halves."""

STATE = (StateColumn("peak"),)
"""What is remembered of each container, in checkpoints too. Give VERSION another number when it comes to mean something else."""
VERSION = 1


def observe(samples: SampleColumns, state: PolicyState) -> None:
    """Remember the highest memory, which fades; called for each scrape and OOM kill, for many containers at once.

    Every array has one element for each container, (n,): cores for CPU, bytes for memory, NaN for "not seen". `state["peak"]` is
    read-only; `state["peak"] = array` remembers it. Others: `samples.at`, `cpu`, `pods`, `killed_at` (the limit of an OOM kill).
    """
    faded = state["peak"] * 0.5 ** (samples.seconds / HALF_LIFE)
    state["peak"] = np.fmax(faded, np.fmax(samples.memory, samples.killed_at * 1.5))


def recommend(usage: EvidenceColumns, state: PolicyState) -> RecommendedColumns:
    """CPU as the built-in estimator has it; memory never below the remembered peak and its headroom.

    `usage.cpu` and `usage.memory` are histograms: `weights` (n, buckets), `starts` (buckets,), and `percentile(0.95)` (n,).
    Others: `recent_peak`, `first`, `last` (seconds since 1970, NaN for none), `samples`, and the amounts in `usage.builtin`.
    No clock, chance, network, file, thread or environment: what is refused is named by `ullage policy lint`.
    """
    builtin = usage.builtin
    floor = state["peak"] * HEADROOM
    # Another quantile for CPU would be: target_cpu = usage.cpu.percentile(0.97) * 1.1
    return RecommendedColumns(
        lower_cpu=builtin.lower_cpu,
        target_cpu=builtin.target_cpu,
        upper_cpu=builtin.upper_cpu,
        lower_memory=builtin.lower_memory,
        target_memory=np.maximum(builtin.target_memory, floor),
        upper_memory=np.maximum(builtin.upper_memory, floor),  # never below the target
    )
'''
"""It imports what a policy may import, and nothing else."""
