"""The topics as the Helm chart reads them: `python -m agents.commands.change.topics_file > deploy/helm/ullage/files/topics.json`.

The chart makes Strimzi's KafkaTopic objects from it. A test fails when the file differs from `streams.topics`.
"""

import json

from agents.run.stage_topics import stage_names
from agents.terminal.output import data
from streams.topics import TOPICS, KeySpace, Topics, changelog_specs

_APP = "ullage"
"""The worker group of the chart, after which changelogs are named."""


def text() -> str:
    """A JSON list: what follows the prefix (of a changelog, the whole name), whether it is a changelog, and how it is made."""
    ours = Topics()
    topics = [
        {
            "suffix": ours.wire(topic.name).removeprefix(f"{ours.prefix}."),
            "changelog": False,
            **({"partitions": 1} if topic.keyed is KeySpace.CLOCK else {}),
            "config": dict(topic.configs()),
        }
        for topic in TOPICS
    ]
    changelogs = [
        {"suffix": spec.name, "changelog": True, "config": dict(spec.configs)} for spec in changelog_specs(_APP, stage_names(), 1)
    ]
    return json.dumps([*topics, *changelogs], indent=1)


if __name__ == "__main__":
    for line in text().splitlines():
        data(line)
