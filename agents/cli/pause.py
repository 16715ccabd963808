"""`ullage pause`, `resume` and `mode`: the switch of a cluster. Agents and consumers obey what was said last."""

from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import CommonOptions, given
from schemas.policies.control import Mode

Cluster = Annotated[str | None, Parameter(help="Which cluster; without it that of the setting `cluster.name`.")]


def pause(
    *,
    reason: Annotated[str, Parameter(help="Why; it is shown wherever something was not done because of it.")],
    cluster: Cluster = None,
    common: CommonOptions | None = None,
) -> None:
    """Stop all changes to a cluster at once, whatever was decided before. Watching and recommending go on.

    Mode and budget stay what they are.
    """
    from agents.operate import pause as switching

    switching.run(given(common).settings(cluster__name=cluster), paused=True, reason=reason)


def resume(
    *,
    reason: Annotated[str, Parameter(help="Why, for who reads the log later.")] = "",
    cluster: Cluster = None,
    common: CommonOptions | None = None,
) -> None:
    """End a pause. Mode and budget are what they were."""
    from agents.operate import pause as switching

    switching.run(given(common).settings(cluster__name=cluster), paused=False, reason=reason)


def mode(
    to: Annotated[
        Mode, Parameter(help="`shadow` only recommends, `plan` also says what it would change, `apply` changes it.", name="MODE")
    ],
    /,
    *,
    budget: Annotated[
        float | None, Parameter(help="Share of a cluster's and a workload's pods that may be away at one time, 0 to 1.")
    ] = None,
    reason: Annotated[str, Parameter(help="Why, for who reads the log later.")] = "",
    cluster: Cluster = None,
    common: CommonOptions | None = None,
) -> None:
    """Say how far Ullage may go in a cluster. A pause stays until `resume`."""
    from agents.operate import pause as switching

    switching.run(given(common).settings(cluster__name=cluster), mode=to, budget=budget, reason=reason)
