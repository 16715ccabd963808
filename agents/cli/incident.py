"""`ullage record`, `export` and `import`: save a stretch of the log as a file that anyone can inspect, and load it back."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import CommonOptions, given

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
