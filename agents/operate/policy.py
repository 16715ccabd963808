"""How `ullage policy` works: policies read from flags or a file, compared with those in the log, and said to every partition."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

import yaml

from agents.operate import policy_file
from agents.operate.amounts import amounts, pairs
from agents.operate.pause import now
from agents.processes.output import data, note
from agents.settings import log_factory
from agents.settings.tree import Settings
from schemas.names import Amounts, Workload
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from streams.codec.event_codec import Codec
from streams.errors import BadInput
from streams.publishing.operator import Operator


@dataclass(frozen=True, slots=True)
class TypedBounds:
    """Bounds as typed: empty texts change nothing."""

    container: str = "*"
    least: str = ""
    most: str = ""


def change(settings: Settings, target: str, mode: str | None, bounds: TypedBounds) -> None:
    """Change what is named of the policy with this target, or make it."""
    well_named(target, "TARGET")
    least, most = amounts(pairs(bounds.least, "--min"), "--min"), amounts(pairs(bounds.most, "--max"), "--max")
    with _operator(settings) as (operator, at):
        new = VerticalPolicyChanged(at, target, "")
        policy = operator.policies().get(target, new)
        entries = {entry.container: entry for entry in policy.containers}
        if bounds.least or bounds.most:
            entry = entries.get(bounds.container, ContainerPolicy(bounds.container))
            entry = replace(entry, min_allowed=_over(entry.min_allowed, least), max_allowed=_over(entry.max_allowed, most))
            entries[bounds.container] = entry
        changed = replace(
            policy, update_mode=UpdateMode(mode) if mode else policy.update_mode, containers=tuple(entries.values())
        )
        _say(operator, at, [changed])


def apply(settings: Settings, file: Path) -> None:
    """Make the policies of a file."""
    policies = policy_file.read(file)
    for policy in policies:
        well_named(policy.target, str(file))
    with _operator(settings) as (operator, at):
        _say(operator, at, policies)


def remove(settings: Settings, target: str) -> None:
    """Take a policy away. Raises BadInput when there is none with this target."""
    with _operator(settings) as (operator, at):
        held = operator.policies()
        if target not in held:
            raise BadInput(f"there is no policy with the target '{target}'; there are: {', '.join(held) or 'none'}")
        operator.say(VerticalPolicyRemoved(at, target))
    data(f"removed {target}")


def show(settings: Settings) -> None:
    """Print all policies in force."""
    with _operator(settings) as (operator, _):
        held = operator.policies()
    if held:
        data(yaml.safe_dump([policy_file.spelled(policy) for policy in held.values()], sort_keys=False).rstrip())
    note(f"{len(held)} policies in force")


def well_named(target: str, where: str) -> None:
    """Raises BadInput for what is neither a workload nor a beginning with `*`."""
    if target.endswith("*") and "*" not in target[:-1]:
        return
    try:
        if "*" not in target:
            Workload.parse(target)
            return
    except ValueError:
        pass
    raise BadInput(
        f"{where} '{target}' names no workload: write cluster/namespace/Kind/name, as demo/shop/Deployment/cart, "
        "or a beginning that ends in '*'"
    )


@contextmanager
def _operator(settings: Settings) -> Iterator[tuple[Operator, datetime]]:
    topics = log_factory.topics(settings)
    with log_factory.log(settings) as log:
        operator = Operator(log, topics, Codec(topics))
        yield operator, now(operator)


def _say(operator: Operator, at: datetime, wanted: Sequence[VerticalPolicyChanged]) -> None:
    """Say those that change something, each with the version that follows from its content."""
    held, news = operator.policies(), []
    for policy in wanted:
        _sensible(policy)
        new = replace(policy, at=at, version=_version(policy))
        old = held.get(policy.target)
        same = old is not None and replace(old, at=at, version=new.version) == new
        if not same:
            news.append(new)
        data(f"{'unchanged' if same else 'set'} {policy.target}: {policy_file.in_words(policy)}")
    operator.say(*news)


def _sensible(policy: VerticalPolicyChanged) -> None:
    for entry in policy.containers:
        for what in ("cpu", "memory"):
            least, most = getattr(entry.min_allowed, what), getattr(entry.max_allowed, what)
            if least is not None and most is not None and least > most:
                raise BadInput(
                    f"policy '{policy.target}', container '{entry.container}': min {what} {least:g} is more than max {most:g}"
                )


def _version(policy: VerticalPolicyChanged) -> str:
    """Equal content, equal version."""
    return blake2b(repr(policy_file.spelled(policy)).encode(), digest_size=4).hexdigest()


def _over(old: Amounts, new: Amounts) -> Amounts:
    return Amounts(old.cpu if new.cpu is None else new.cpu, old.memory if new.memory is None else new.memory)
