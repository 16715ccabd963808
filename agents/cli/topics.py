"""`ullage topics`: compare the topics with their desired state, correct them, document them, and say who may use them."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, TextOutputOption, given

app = App(name="topics", help="Make Kafka's topics as Ullage needs them.")


@app.command
def plan(*, output: TextOutputOption = "table", common: CommonOptions | None = None) -> None:
    """Show what `apply` would change, and change nothing. A line with [...] would lose something."""
    from agents.commands.change import topics

    topics.plan(given(common).settings(), output)


@app.command
def asyncapi(*, common: CommonOptions | None = None) -> None:
    """Print the AsyncAPI 3 document (YAML): every topic, its settings, and what its records look like. Needs no broker."""
    from agents.commands.change import topics

    topics.describe(given(common).settings())


@app.command
def apply(
    *,
    force: Annotated[
        tuple[str, ...],
        Parameter(help="A change to make although it loses something, as `plan` names it: TOPIC:WHAT. May be repeated."),
    ] = (),
    common: CommonOptions | None = None,
) -> None:
    """Make what is missing and put right what drifted. Refuses what would lose records unless it is forced by name."""
    from agents.commands.change import topics

    topics.apply(given(common).settings(), force=force)


@app.command
def users(
    file: Annotated[Path, Parameter(help="The users (JSON), as the Helm chart writes them.")],
    *,
    beginning: Annotated[
        str, Parameter(help="Users whose names begin so, and whom the file does not name, lose login and rights.")
    ] = "",
    common: CommonOptions | None = None,
) -> None:
    """Let users sign in at Kafka by SCRAM-SHA-512, each with exactly the rights that a file says: docs/security.md."""
    from agents.commands.change import topics

    topics.apply_users(given(common).settings(), file, beginning=beginning)


@app.command
def move(
    *,
    partitions: Annotated[int, Parameter(help="How many partitions the topics have there, from 1 to 1000.")],
    to: Annotated[str, Parameter(help="topics.prefix and worker.name from then on; nobody may have used either.")],
    common: CommonOptions | None = None,
) -> None:
    """Copy the log into topics with another number of partitions, with the state of all stages. The old topics stay as they are.

    End every process on the log first: the clock, then the workers once they have taken the last tick, sources and consumers.
    """
    from agents.commands.change import topics_move

    topics_move.run(given(common).settings(), partitions=partitions, to=to)
