"""`ullage why-not`: explain why Ullage leaves a pod, a workload or a node as it is."""

from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import At, CommonOptions, TextOutputOption, given


def why_not(
    what: Annotated[
        str,
        Parameter(
            help="A pod: its name, NAMESPACE/NAME, or its uid; or a workload: NAMESPACE/KIND/NAME, or shorter; or a node. "
            "Or `pod`, `workload` or `node`, and then NAME."
        ),
    ],
    name: Annotated[str | None, Parameter(help="The pod, the workload (NAMESPACE/KIND/NAME) or the node.")] = None,
    /,
    *,
    at: At = None,
    output: TextOutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Say why something is left as it is: a pod that is not changed or waits for a node, a workload's pods, a node that stays.

    Each guard or rule that holds it back is named with its numbers. Reads the log only.
    """
    from agents.commands.past import why_not as command

    command.run(given(common).settings(log__at=at), [what] if name is None else [what, name], output)
