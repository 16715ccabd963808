"""Runs `ullage topics users`: makes Kafka's users and their rights as a file says."""

from pathlib import Path

from agents.commands.change import topics
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal.output import note, sentence
from streams.admin import kafka_users, topic_admin


def run(settings: Settings, file: Path, *, beginning: str) -> None:
    """Make them. Raises BadInput for a log that is not in Kafka and a file that says no users."""
    topics.require_kafka(settings)
    users = kafka_users.read(file)
    with topic_admin.connect(log_factory.answering_connection(settings), right=kafka_users.RIGHT) as client:
        changes = kafka_users.apply(client, users, beginning=beginning)
    for change in changes:
        sentence(change)
    note(f"{len(users)} users, {len(changes)} changes")
