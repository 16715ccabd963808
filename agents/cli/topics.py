"""`ullage topics plan` and `apply`: the topics as they are and as they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, given

if TYPE_CHECKING:
    from agents.settings.tree import Settings
    from streams.topics import TopicSpec

app = App(name="topics", help="Make Kafka's topics as Ullage needs them.")


@app.command
def plan(*, common: CommonOptions | None = None) -> None:
    """Show what `apply` would change, and change nothing. A line with [...] would lose something."""
    from agents.processes.output import data, note
    from agents.settings import log_factory
    from streams.admin import topic_admin

    settings = given(common).settings()
    with topic_admin.connect(log_factory.connection(settings)) as client:
        found = topic_admin.plan(client, wanted(settings))
    for change in found.changes:
        data(str(change))
    for remark in found.notes:
        note(remark)
    note(
        f"{len(found.changes)} changes; `ullage topics apply` makes them"
        if found.changes
        else "nothing to do: all topics are as planned"
    )


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
    from agents.processes.output import data, note
    from agents.settings import log_factory
    from streams.admin import topic_admin

    settings = given(common).settings()
    with topic_admin.connect(log_factory.connection(settings)) as client:
        found = topic_admin.plan(client, wanted(settings))
        topic_admin.apply(client, found, force=force)
    for change in found.changes:
        data(str(change))
    note(f"{len(found.changes)} changes made" if found.changes else "nothing to do: all topics are as planned")


def wanted(settings: Settings) -> tuple[TopicSpec, ...]:
    """All topics of these settings, the changelogs of the stages' states among them."""
    from agents.pipeline import stage_names
    from agents.settings import log_factory
    from streams.topics import state_topics

    count, copies = settings.topics.partitions, settings.topics.replication
    return (*log_factory.topics(settings).specs(copies), *state_topics(settings.worker.name, stage_names(), count, copies))
