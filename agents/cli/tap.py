"""`ullage tap TOPIC`: read a topic with its records decoded."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import CommonOptions, LimitOption, given
from streams.errors import BadInput

if TYPE_CHECKING:
    from agents.terminal.output_table import TextForm

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
