"""`ullage why` and `why-not`: what an action rests on, and why something is left as it is."""

from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import At, CommonOptions, TextOutputOption, given


def why(
    asked: Annotated[
        str,
        Parameter(
            help="A decision's id, an outcome's id, a pod (its name, NAMESPACE/NAME, or its uid), a VPA (NAMESPACE/NAME), a "
            "workload (NAMESPACE/KIND/NAME, or shorter), a node or a node group, or a place in the log (TOPIC:PARTITION:OFFSET)."
        ),
    ],
    /,
    *,
    verbose: Annotated[
        bool,
        Parameter(
            name=("--verbose", "-v"),
            help="Every number as the record has it, bounds and settings too; and all that ended, not the newest three.",
        ),
    ] = False,
    at: At = None,
    output: TextOutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Explain a decision: the numbers it rests on, what caused them, each with its place in the log, and what became of it."""
    from agents.settings import log_factory
    from agents.terminal import output_table
    from agents.why.explanation import explain
    from agents.why.explanation_lines import lines
    from streams.log_context import LogContext
    from streams.publishing import source_reports

    options = given(common)
    settings = options.settings(log__at=at)
    with log_factory.log_to_read(settings) as (log, fitted):
        context = LogContext.of(log, log_factory.topics(fitted))
        if options.cluster is not None:
            source_reports.require_cluster(context, options.cluster)
        found = explain(context, asked)
        output_table.print_text(output, lines(found, full=verbose), found)


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
