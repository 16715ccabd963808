"""The Helm chart's files, without Helm: what they say of our program is true. tests/controlplane renders and applies them."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from agents.cli.program import app
from agents.commands.change import topics
from agents.logic.guards.guard_records import STOPPING
from streams.broker import jars
from tests.support import chart_rights, chart_settings

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/ullage"
COMMANDS = re.compile(r'"args" \(list ((?:"[a-z-]+" ?)+)\)')


def test_the_topics_of_the_chart_are_those_of_the_program() -> None:
    written = (CHART / "files/topics.json").read_text(encoding="utf-8")
    assert written.rstrip() == topics.helm_topics(), (
        "write it anew: python -m agents.commands.change.topics > $CHART/files/topics.json"
    )


def test_the_users_of_the_chart_have_the_rights_of_the_page_on_security() -> None:
    assert chart_rights.FILE.read_text(encoding="utf-8") == chart_rights.text(), "make docs"


def test_the_kube_source_may_see_what_it_watches_and_nothing_else() -> None:
    role = chart_rights.KUBE.read_text(encoding="utf-8")
    assert role == chart_rights.with_watched(role), "make docs"


def test_every_file_of_rights_is_a_component_of_the_chart() -> None:
    named = set(
        re.findall(r'"((?:agents|source|consumer)[a-z-]*)"', (CHART / "templates/roles.yaml").read_text(encoding="utf-8"))
    )
    by_hand = {"checkpoints-export"}  # as docs/install.md says
    assert named == {file.stem for file in (CHART / "rbac").glob("*.yaml")} - by_hand


def test_every_command_of_a_component_is_one_of_ours() -> None:
    found = [re.findall(r'"([a-z-]+)"', text) for text in COMMANDS.findall((CHART / "templates/_names.tpl").read_text("utf-8"))]
    parts = [words for words in found if words != ["run"]]  # what follows is put together of these
    assert len(parts) == 14
    for words in parts:
        app.parse_args([*words, "--config", "x"], exit_on_error=False, print_error=False)


def test_the_kafka_for_trying_out_is_the_one_that_compose_and_the_embedded_broker_run() -> None:
    kafka = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["kafka"]
    assert kafka["single"]["image"] == f"apache/kafka:{jars.kafka_version(jars.locked())}"


def values() -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return found


def test_the_schema_knows_every_value_and_takes_the_defaults() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert set(values()) <= set(schema["properties"])
    jsonschema.validate({**values(), "clusterName": "prod"}, schema)
    with pytest.raises(jsonschema.ValidationError, match="does not match"):
        jsonschema.validate({**values(), "clusterName": "a b"}, schema)
    with pytest.raises(jsonschema.ValidationError, match="'on' is not one of"):
        jsonschema.validate({**values(), "clusterName": "prod", "mode": "on"}, schema)


def test_what_the_page_of_metrics_calls_an_alarm_is_an_alert() -> None:
    rows = (ROOT / "docs/observability.md").read_text(encoding="utf-8").splitlines()
    named = {row.split("`")[1] for row in rows if row.startswith("| `ullage_") and "**alarm " in row}
    rules = (CHART / "files/alerts.yaml").read_text(encoding="utf-8")
    assert len(named) > 5
    assert {name for name in named if name not in rules} == set()


def test_the_schema_knows_the_settings_that_the_program_has() -> None:
    text = chart_settings.SCHEMA.read_text(encoding="utf-8")
    assert chart_settings.written(text) == text, "make docs"
    for group, name in (("vertical", "margni"), ("verticl", "margin")):
        with pytest.raises(jsonschema.ValidationError, match="unexpected"):
            jsonschema.validate({**values(), "clusterName": "prod", "settings": {group: {name: 1}}}, json.loads(text))


def test_every_alert_has_a_row_that_says_what_to_do() -> None:
    rules = yaml.safe_load((CHART / "files/alerts.yaml").read_text(encoding="utf-8"))
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    rows = re.findall(r"^\| `(Ullage\w+)` \|", (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == alerts


def test_every_guard_that_stops_until_somebody_does_something_has_an_alert() -> None:
    rules = (CHART / "files/alerts.yaml").read_text(encoding="utf-8")
    assert [guard for guard in sorted(STOPPING) if not re.search(rf'guard=~?"[^"]*\b{guard}\b', rules)] == []


def test_alerts_and_dashboard_ask_only_for_metrics_that_there_are() -> None:
    known = set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs/observability.md").read_text(encoding="utf-8"), re.MULTILINE))
    known |= {f"{name}_bucket" for name in known}
    asked = set()
    for name in ("alerts.yaml", "dashboard.json", "fleet-dashboard.json"):
        asked |= set(re.findall(r"\bullage_[a-z_]+\b", (CHART / "files" / name).read_text(encoding="utf-8")))
    assert len(asked) > 15
    assert asked <= known
