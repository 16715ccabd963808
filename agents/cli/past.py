"""The commands about what the log has of the past: what happened and why, what other rules would do, and a stretch as a file.

These are `ullage timeline`, `history`, `tap`, `report`, `why`, `why-not`, `replay`, `export`, `record` and `import`.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from agents.cli.backtest import PricesOption
from agents.cli.options import At, CommonOptions, LimitOption, TextOutputOption, given
from streams.errors import BadInput

if TYPE_CHECKING:
    from agents.terminal.output_table import TextForm

IncidentPath = Annotated[Path, Parameter(help="The incident file, as `storm.parquet`.")]
Begin = Annotated[
    str | None,
    Parameter(name="--from", help="Where the stretch begins: `2026-01-05T03:02`, `03:02`, or `2h` before the log's newest tick."),
]
End = Annotated[str | None, Parameter(name="--to", help="Where the stretch ends, said in the same ways; without it, now.")]
TopicOption = Annotated[
    tuple[str, ...], Parameter(help="Only this topic, as `pod-updates`; may be given again.", consume_multiple=False)
]
KeyFile = Annotated[
    Path | None,
    Parameter(
        help="Replace all names, by the key in this file, which is made if there is none. The same key gives the same pseudonyms."
    ),
]


def export(  # noqa: PLR0913  # the flags of a command
    file: IncidentPath,
    /,
    *,
    begin: Begin = None,
    end: End = None,
    topic: TopicOption = (),
    pseudonyms: KeyFile = None,
    common: CommonOptions | None = None,
) -> None:
    """Write a stretch of the log into one incident file: Parquet, with a manifest of places, versions and hashes.

    Without `--from` it is everything that the log keeps, with the workers' checkpoints, and `replay --verify` works on the file.
    A stretch also has the policies and the control that were in force when it began.
    """
    from agents.commands.past import incident as command

    command.export(given(common).settings(), file, command.ExportFlags(begin, end, topic, pseudonyms))


def record(
    file: IncidentPath,
    /,
    *,
    length: Annotated[str | None, Parameter(name="--for", help="Stop after so long, as `10m`; without it, at Ctrl-C.")] = None,
    topic: TopicOption = (),
    pseudonyms: KeyFile = None,
    common: CommonOptions | None = None,
) -> None:
    """Write what the log takes from now on into an incident file, until Ctrl-C or for so long."""
    from agents.commands.past import incident as command

    command.record(given(common).settings(), file, length, command.ExportFlags(topics=topic, key_file=pseudonyms))


def import_(
    file: IncidentPath,
    /,
    *,
    to: Annotated[
        Path | None, Parameter(help="A new log file (.jsonl), instead of the log of the settings, which must be empty.")
    ] = None,
    salvage: Annotated[bool, Parameter(help="Take what is whole of a damaged file, and say what is not.")] = False,
    check: Annotated[bool, Parameter(help="Only compare the file with its manifest.")] = False,
    common: CommonOptions | None = None,
) -> int:
    """Put an incident file into a log. Exits with 2, having changed nothing, when the file is damaged.

    `why`, `tap`, `replay` and the like also read the file as it is, with `--log FILE`.
    """
    from agents.commands.past import incident as command

    return command.import_file(given(common).settings, file, to=to, salvage=salvage, check=check)


TimelineOutputOption = Annotated[
    Literal["table", "wide", "json", "yaml", "csv", "md", "html"],
    Parameter(name=("--output", "-o"), help="For people or for programs."),
]


def timeline(  # noqa: PLR0913  # the flags of a command
    *,
    namespace: Annotated[
        tuple[str, ...],
        Parameter(
            name=("--namespace", "-n"),
            help="Only this namespace or pattern, and what concerns everybody.",
            consume_multiple=False,
        ),
    ] = (),
    workload: Annotated[str, Parameter(help="Only this workload: its name, NAMESPACE/NAME, or NAMESPACE/KIND/NAME.")] = "",
    begin: Begin = None,
    end: End = None,
    everything: Annotated[bool, Parameter(name="--all", help="Recommendations too.")] = False,
    limit: LimitOption = None,
    output: TimelineOutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Print what happened in a stretch on one axis of time: policies, kills, decisions and outcomes, with places."""
    from agents.commands.past import timeline as command

    options = given(common)
    wanted = command.TimelineFilter(namespace, workload, options.cluster)
    flags = command.TimelineFlags(wanted, begin, end, output, limit, everything)
    command.timeline(options.settings(), flags)


def history(  # noqa: PLR0913  # the flags of a command
    workload: Annotated[str, Parameter(help="A workload: its name, NAMESPACE/NAME, or NAMESPACE/KIND/NAME.")],
    /,
    *,
    begin: Begin = None,
    end: End = None,
    limit: LimitOption = None,
    output: TimelineOutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Print each change of what a workload's containers request and are recommended, with bounds and places."""
    from agents.commands.past import timeline as command

    options = given(common)
    flags = command.TimelineFlags(command.TimelineFilter(cluster=options.cluster), begin, end, output, limit)
    command.history(options.settings(), workload, flags)


_FORMS: "dict[str, TextForm]" = {
    "table": "table",
    "wide": "wide",
    "pretty": "table",
    "json": "json",
    "jsonl": "json",
    "yaml": "yaml",
}


def tap(  # noqa: PLR0913  # the flags of a command
    topic: Annotated[str, Parameter(help="The topic's short name, as `pod-updates`; `ullage topics plan` lists them.")],
    *,
    begin: Annotated[
        str, Parameter(name=("--from",), help="Where to begin: `begin`, `end`, an offset, or a time ago as 90s, 30m, 1h, 2d.")
    ] = "begin",
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), help="Go on when the end is reached.")] = False,
    key: Annotated[str, Parameter(help="Only records whose key matches this pattern, as `demo/shop/*`.")] = "*",
    kind: Annotated[str | None, Parameter(name="--type", help="Only events of this type, as `EvictionPlanned`.")] = None,
    limit: Annotated[LimitOption, Parameter(help="Stop after this many records.")] = None,
    last: Annotated[LimitOption, Parameter(help="Only the newest so many, instead of `--from` and `--limit`.")] = None,
    output: Annotated[
        Literal["table", "wide", "json", "yaml", "pretty", "jsonl"],
        Parameter(
            name=("--output", "-o"),
            help="For people (`table`, `pretty`), or for programs: a line of JSON (`json`, `jsonl`) or an item of YAML a record.",
        ),
    ] = "table",
    ticks: Annotated[bool, Parameter(help="Show ticks too.")] = False,
    common: CommonOptions | None = None,
) -> None:
    """Print the records of a topic, decoded: time, place, type, key and content. Reads only."""
    from agents.commands.past import tap as command

    wanted = command.RecordFilter(key=key, kind=kind, limit=limit, ticks=ticks)
    settings, form = given(common).settings(), _FORMS[output]
    if last is None:
        command.run(settings, topic, begin=begin, follow=follow, wanted=wanted, form=form)
        return
    if begin != "begin" or follow or ticks or limit is not None:
        raise BadInput("--last goes without --from, --follow, --limit and --ticks: it is the end of the topic as it is now")
    command.run_last(settings, topic, count=last, wanted=wanted, form=form)


def report(  # noqa: PLR0913  # the flags of a command
    file: Annotated[Path | None, Parameter(help="The file to write, as `report.html`.")] = None,
    /,
    *,
    begin: Begin = None,
    end: End = None,
    top: Annotated[int, Parameter(help="How many containers get a chart, those that save most first.")] = 12,
    prices: PricesOption = None,
    live: Annotated[
        bool, Parameter(help="Serve the page instead of writing a file, and keep it up to date with the log.")
    ] = False,
    listen: Annotated[
        str, Parameter(help="Where the live page is served; beyond this machine it needs a token.")
    ] = "127.0.0.1:0",
    token_file: Annotated[Path | None, Parameter(help="A file with the token that readers of the live page show.")] = None,
    every: Annotated[float, Parameter(help="Seconds between two looks of the live page at the log.")] = 5.0,
    common: CommonOptions | None = None,
) -> None:
    """Write one page about a stretch of the log: fleet, savings with the risk beside them, workloads and charts. Opens offline.

    Without `--from` it is everything that the log keeps. `--live` only reads, too:
    readers show the token as `?token=...` or as a bearer token.
    """
    from agents.commands.report import report_command as command

    settings, flags = given(common).settings(), command.ReportFlags(begin, end, top, prices)
    if live == (file is not None):
        raise BadInput("give a file to write, or --live to serve the page" + (", not both" if live else ""))
    if file is None:
        command.serve(settings, flags, listen=listen, token_file=token_file, every=every)
    else:
        command.run(settings, file, flags)


def replay(  # noqa: PLR0913  # the flags of a command
    *,
    file: Annotated[Path | None, Parameter(help="Replay this log file instead of the log of the settings; as --log.")] = None,
    verify: Annotated[bool, Parameter(help="Recompute every turn and compare with what was published, byte for byte.")] = False,
    export: Annotated[Path | None, Parameter(help="Copy the log with its places into this file first.")] = None,
    begin: Begin = None,
    end: End = None,
    policy: Annotated[
        Path | None, Parameter(help="Decide the stretch by these vertical policies, as `ullage policy apply` takes them.")
    ] = None,
    output: Annotated[
        Literal["table", "wide", "json", "yaml"],
        Parameter(
            name=("--output", "-o"), help="For people or for programs: of all decisions, a JSON object a line or a YAML list."
        ),
    ] = "table",
    common: CommonOptions | None = None,
) -> int:
    """Recompute decisions from the log alone. Prints what each turn gives; with `--verify`, what differs from the published.

    With rules in `--set` or `--policy` it decides twice, by the rules that were in force and by these, and prints what would have
    been different: `--set guard.budget=5%`, `--set vertical.margin=0.3`. `--from` and `--to` are the stretch, or it is all.

    Exits with 3 when `--verify` finds a difference, a missing or an extra decision, or a stretch it cannot reach, and with 4 when
    all that it compared is right and other turns were decided by a version of the rules that this program does not have.
    """
    options = given(common) if file is None else replace(given(common), log=file)
    # rules beside --verify are no question of what if: they decide the turns from before the log had any rules
    if begin is not None or end is not None or policy is not None or (not verify and export is None and _has_rules(options)):
        return _what_if(options, begin, end, policy, output)
    from agents.commands.past import replay as command

    # before the replay, which may take minutes
    if output not in {"table", "wide"} and verify:
        raise BadInput(f"--output {output} is for decisions; --verify says what differs in words, and by its exit code")
    return command.run(options.settings(), verify=verify, export=export, form=output)


def _has_rules(options: CommonOptions) -> bool:
    """Whether `--set` names a rule that a stage decides by."""
    # what_if_command is heavy, so it is loaded only where there is a setting to look at
    if not options.set:
        return False
    from agents.commands.compare import what_if_command as command

    return any(map(command.is_rule, options.set))


def _what_if(options: CommonOptions, begin: str | None, end: str | None, policy: Path | None, form: "TextForm") -> int:
    from agents.commands.compare import what_if_command as command

    options = replace(options, set=command.settings_of(options.set))
    return command.run(options.settings(), options.set, command.WhatIfFlags(begin, end, policy, form))


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
    from streams.publishing import source_reports

    options = given(common)
    settings = options.settings(log__at=at)
    with log_factory.context_to_read(settings) as (context, _):
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
