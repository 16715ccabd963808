"""What README and docs/sizing.md say in figures is what was played, and what was measured."""

from dataclasses import replace

import pytest
import yaml

from streams.topics import DAY_MS, REPLAYED, TOPICS, Need
from tests.support import readme_figures, sizing_page

REPLAYED_LONGER = Need(REPLAYED.retention_ms + 30 * DAY_MS, "somebody who reads further back")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_readme_has_the_figures_and_the_picture_that_make_figures_writes() -> None:
    readme, picture = readme_figures.front()
    assert readme_figures.README.read_text() == readme, "make figures"
    assert readme_figures.PICTURE.read_text() == picture, "make figures"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_readme_has_the_figures_of_the_recorded_trace() -> None:
    if not readme_figures.TRACE.exists():
        pytest.skip("there is no google2019-borg under ULLAGE_SHARED (default ../shared)")
    assert readme_figures.README.read_text() == readme_figures.recorded(), "make figures"


def test_the_volume_of_the_chart_holds_what_its_kafka_keeps() -> None:
    values = yaml.safe_load((sizing_page.ROOT / "deploy/helm/ullage/values.yaml").read_text())
    assert values["kafka"]["single"]["storage"] == f"{sizing_page.volume_gib(sizing_page.USUAL)}Gi"


def test_what_a_topic_keeps_longer_makes_the_volume_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sizing_page.on_disk(10_000)
    longer = [replace(topic, need=REPLAYED_LONGER) if topic.name == "pod-metrics" else topic for topic in TOPICS]
    monkeypatch.setattr(sizing_page, "TOPICS", tuple(longer))
    assert sizing_page.on_disk(10_000) - before == 10_000 * sizing_page.written()["pod-metrics"] * 30


def test_the_page_on_sizing_has_the_figures_that_were_measured() -> None:
    assert sizing_page.PAGE.read_text() == sizing_page.page(), "make sizing"
