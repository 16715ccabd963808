"""What can be wrong with a worker: each mutant must make the torture come out WRONG.

A mutant patches classes of its own process and is chosen by name; the product knows nothing of it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agents.run.partition_task import Task, TurnResult
from schemas.facts.usage import MetricsScraped


def skip_a_sample_after_recovery() -> None:
    """The first scrape after a state was loaded from a changelog lacks its first row."""
    resume, read = Task.resume, Task._read

    def resume_and_forget(self: Task, *state: Any, **of_it: Any) -> None:
        resume(self, *state, **of_it)
        vars(self)["skips"] = True

    def read_less(self: Task, record: Any, turn: int) -> Any:
        event = read(self, record, turn)
        if isinstance(event, MetricsScraped) and len(event.pods) > 1 and vars(self).pop("skips", False):
            columns = ("workloads", "pods", "containers", "cores", "memory")
            return replace(event, **{name: getattr(event, name)[1:] for name in columns})
        return event

    Task.resume, Task._read = resume_and_forget, read_less  # type: ignore[method-assign]  # the mutation itself


def drop_the_first_decision() -> None:
    """Of an opened partition the first decision is never published."""
    next_turn = Task.next_turn

    def next_turn_less(self: Task) -> TurnResult | None:
        result = next_turn(self)
        if result is None or not result.decisions or vars(self).get("dropped"):
            return result
        vars(self)["dropped"] = True
        return replace(result, decisions=result.decisions[1:])

    Task.next_turn = next_turn_less  # type: ignore[method-assign]  # the mutation itself


def raise_once(done: Path) -> None:
    """Of all workers that know the file `done`, one fails in one turn. All else comes out right: it is started again."""
    next_turn = Task.next_turn

    def next_turn_or_fail(self: Task) -> TurnResult | None:
        result = next_turn(self)
        if result is not None and result.decisions and not done.exists():
            done.touch()
            raise ValueError("this worker fails once")
        return result

    Task.next_turn = next_turn_or_fail  # type: ignore[method-assign]  # the mutation itself


IN_WORKERS = ("skip-sample", "drop-decision", "raise-once")


def put_on(names: Iterable[str], once: Path) -> None:
    """Make this process a mutant worker. `once`: a file that is there when what happens once has happened."""
    mutants: Mapping[str, Callable[[], None]] = {
        "skip-sample": skip_a_sample_after_recovery,
        "drop-decision": drop_the_first_decision,
        "raise-once": partial(raise_once, once),
    }
    for name in names:
        mutants[name]()
