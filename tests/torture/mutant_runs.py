"""The short torture with each mutant. One that does not come out WRONG, for what it does, is a hole in the torture."""

from collections.abc import Mapping
from dataclasses import replace

from tests.torture.mutant_consumers import MUTANTS
from tests.torture.torture_options import SHORT, TortureOptions
from tests.torture.torture_run import run

FOUND_BY: Mapping[str, str] = {
    "skip-sample": "differ",
    "drop-decision": "missing",
    "raise-once": "ended by itself with code 70",
    "act-twice": "no plan for it was open",
    "do-nothing": "is called done",
    "patch-nothing": "new pods were patched that should have been",
    "done-unseen": "is called patched, but the cluster refused it",
    "fail-open": "new pods were patched that should have been",
    "act-on-expired": "had expired",
    "act-on-paused": "under a pause",
    "lose-a-pause": "under a pause",
    "keep-the-lease": "has 2 outcomes",
}
"""Words of the finding that shows each mutant."""


WORKER_RUNS = (("skip-sample",), ("drop-decision", "raise-once"))
"""Mutants among workers that share a run: what shows one of them cannot come from the other."""


def worker_run(seed: int, mutants: tuple[str, ...]) -> TortureOptions:
    """Only workers are hurt, and only by kills, stops and clocks; there are no consumers."""
    return replace(
        SHORT, seed=seed, kills=2, freezes=0, broker_kills=0, tears=0, clusters=False, worker_mutants=mutants,
        minimum=(("recoveries", 1),),
    )  # fmt: skip


def consumers_run(seed: int) -> TortureOptions:
    """The short torture, with all mutants among consumers at once, each with a cluster of its own, beside sound ones."""
    return replace(SHORT, seed=seed, consumer_mutants=tuple(MUTANTS))


def is_found(mutant: str, wrong: list[str]) -> bool:
    """Whether the torture says of a mutant what is wrong with it."""
    return any(FOUND_BY[mutant] in says for says in wrong)


async def survivors(seed: int) -> list[str]:
    """The mutants that were not found, and what else is not as it should be."""
    alive = []
    for mutants in WORKER_RUNS:
        found = (await run(worker_run(seed, mutants))).wrong
        alive += [mutant for mutant in mutants if not is_found(mutant, found)]
    report = await run(consumers_run(seed))
    alive += [mutant for mutant, wrong in report.mutants.items() if not is_found(mutant, wrong)]
    return alive if report.exact else [*alive, "the sound consumers beside the mutants"]
