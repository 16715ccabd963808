"""The alerts, by Prometheus' own engine: each fires when it should, and clears when the trouble is over."""

import subprocess
from pathlib import Path

import yaml

from tests.controlplane import prometheus_package
from tests.support.commands import ROOT

RULES = ROOT / "deploy/helm/ullage/files/alerts.yaml"
PLAYED = Path(__file__).with_name("alerts_test.yaml")


def test_every_alert_fires_and_clears_as_the_played_series_say(tmp_path: Path) -> None:
    played = tmp_path / "played.yaml"
    played.write_text(PLAYED.read_text().replace("RULES", str(RULES)))
    promtool = str(prometheus_package.programs() / "promtool")
    for words in (["check", "rules", str(RULES)], ["test", "rules", str(played)]):
        ended = subprocess.run([promtool, *words], capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_of_every_alert_both_is_played() -> None:
    alerts = {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
    asked = [case for test in yaml.safe_load(PLAYED.read_text())["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in asked if case["exp_alerts"]} == alerts
    assert {case["alertname"] for case in asked if not case["exp_alerts"]} == alerts
