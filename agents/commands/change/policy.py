"""Runs `ullage policy`: reads policies from flags or a file, compares them with the log, and publishes those that changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

from agents.commands.change import command_objects, policy_file
from agents.commands.change.operator_session import operator_session
from agents.commands.change.policy_file import amounts, pairs
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data, note, sentence
from schemas.names import Workload
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from streams.clients.kube.quantities import merged
from streams.errors import BadInput
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog


@dataclass(frozen=True, slots=True)
class BoundFlags:
    """Bounds as typed by an operator. An empty text changes nothing."""

    container: str = "*"
    least: str = ""
    most: str = ""


def change(settings: Settings, target: str, mode: str | None, bounds: BoundFlags, *, take_over: bool = False) -> None:
    """Change the given parts of the policy with this target, or make a new one.

    `take_over`, here and below: also where an object of the cluster says it, which may be gone without anybody having heard.
    """
    check_target(target, "TARGET")
    least, most = amounts(pairs(bounds.least, "--min"), "--min"), amounts(pairs(bounds.most, "--max"), "--max")
    with operator_session(settings) as (operator, at):
        # without a version, which `_publish` computes from the content
        new = VerticalPolicyChanged(at, target, "")
        policy = operator.policies().get(target, new)
        entries = {entry.container: entry for entry in policy.containers}
        if bounds.least or bounds.most:
            entry = entries.get(bounds.container, ContainerPolicy(bounds.container))
            low, high = merged(entry.min_allowed, least), merged(entry.max_allowed, most)
            entries[bounds.container] = replace(entry, min_allowed=low, max_allowed=high)
        changed = replace(
            policy, update_mode=UpdateMode(mode) if mode else policy.update_mode, containers=tuple(entries.values())
        )
        _publish(operator, at, [changed], take_over=take_over)


def apply(settings: Settings, file: Path, *, take_over: bool = False) -> None:
    """Publish the policies of a file."""
    policies = policy_file.read(file)
    # all targets first: a file is published as a whole or not at all
    for policy in policies:
        check_target(policy.target, str(file))
    with operator_session(settings) as (operator, at):
        _publish(operator, at, policies, take_over=take_over)


def remove(settings: Settings, target: str, *, take_over: bool = False) -> None:
    """Remove a policy. Raises BadInput when there is none with this target."""
    with operator_session(settings) as (operator, at):
        in_force = operator.policies()
        if target not in in_force:
            raise BadInput(f"there is no policy with the target '{target}'; there are: {', '.join(in_force) or 'none'}")
        _require_no_object(in_force[target], take_over=take_over)
        operator.publish(VerticalPolicyRemoved(at, target))
    sentence(f"removed {target}")


def check_target(target: str, where: str) -> None:
    """Raise BadInput for a target that is neither a workload key nor a prefix that ends in `*`."""
    if target.endswith("*") and "*" not in target[:-1]:
        return
    try:
        # a workload's key has no star, and Workload.parse would take one as a name
        if "*" not in target:
            Workload.parse(target)
            return
    except ValueError:
        pass
    raise BadInput(
        f"{where} '{target}' names no workload: write cluster/namespace/Kind/name, as demo/shop/Deployment/cart, "
        "or a beginning that ends in '*'"
    )


def _publish(operator: OperatorLog, at: datetime, wanted: Sequence[VerticalPolicyChanged], *, take_over: bool) -> None:
    """Publish the policies that change something, each with the version that follows from its content."""
    in_force, changed = operator.policies(), []
    for policy in wanted:
        cluster, slash, _ = policy.target.partition("/")
        # a pattern may name clusters that are yet to come
        if slash and "*" not in cluster:
            source_reports.require_cluster(operator.context, cluster)
        _check_bounds(policy)
        # equal content, equal version
        version = blake2b(repr(policy_file.as_body(policy)).encode(), digest_size=4).hexdigest()
        new = replace(policy, at=at, version=version, through="")
        old = in_force.get(policy.target)
        # time and version do not count: applying one file twice must not make the log longer
        same = old is not None and replace(old, at=at, version=new.version, by=new.by, through="") == new
        # what an object says already becomes the command's own only where that is asked for
        same = same and not (take_over and old is not None and old.through)
        if not same:
            _require_no_object(old, take_over=take_over)
            changed.append(new)
        sentence(f"{'unchanged' if same else 'set'} {policy.target}: {policy_file.describe(policy)}")
    # in one call after all checks, so that a fault in the last policy keeps the first from the log
    operator.publish(*changed)


def _require_no_object(old: VerticalPolicyChanged | None, *, take_over: bool) -> None:
    """Raise BadInput where an object of the cluster says this policy: it alone changes it, unless it is taken over."""
    if old is not None and old.through:
        kind, _, name = old.through.partition("/")
        namespace, _, name = name.partition("/")
        if take_over:
            note(
                f"{old.through} said the policy of '{old.target}': where it exists and a source mirrors it (cluster.policies), "
                "that object wins again within a minute"
            )
            return
        raise BadInput(
            f"the object {old.through} says the policy of '{old.target}', so only that object changes it: "
            f"kubectl edit {kind.lower()} {name} -n {namespace}. Once it is deleted, this command may change it again; "
            "where no source is at work that hears of that, --take-over changes it here"
        )


def _check_bounds(policy: VerticalPolicyChanged) -> None:
    for entry in policy.containers:
        for what in ("cpu", "memory"):
            least, most = getattr(entry.min_allowed, what), getattr(entry.max_allowed, what)
            if least is not None and most is not None and least > most:
                low, high = (policy_file.quantities(bound)[what] for bound in (entry.min_allowed, entry.max_allowed))
                raise BadInput(
                    f"policy '{policy.target}', container '{entry.container}': min {what} {low} is more than max {high}"
                )


# Runs `ullage policy list`: the vertical policies in force. As YAML and JSON they are what `ullage policy apply` takes.


def show_in_force(settings: Settings, form: output_table.OutputForm, *, as_objects: bool = False) -> None:
    """Print all policies in force, as objects of the cluster if so wanted."""
    with log_factory.context_to_read(settings) as (context, _):
        in_force = list(OperatorLog(context).policies().values())
    if as_objects:
        command_objects.print_policies(in_force, settings.cluster.name)
    elif form == "yaml":
        # as comments, because `apply` takes no author
        for policy in in_force:
            if author := _author(policy):
                data(f"# {author}")
            output_table.print_rows(form, [policy_file.as_body(policy)])
        if not in_force:
            output_table.print_rows(form, [])
    elif form == "json":
        output_table.print_rows(form, [policy_file.as_body(policy) for policy in in_force])
    else:
        rows = [{"target": policy.target, "says": policy_file.describe(policy), "by": _author(policy)} for policy in in_force]
        output_table.print_rows(form, rows, ("target", "says", "by"), ("by",))
    note(f"{len(in_force)} {'policy' if len(in_force) == 1 else 'policies'} in force")


def _author(policy: VerticalPolicyChanged) -> str:
    """`alice (Kafka principal)`, or with the object that says it."""
    return " ".join(filter(None, (str(policy.by or ""), policy.through and f"through {policy.through}")))
