"""The rounds in which the metrics API keeps up its registrations, where the API server refuses them."""

from datetime import UTC, datetime
from typing import Any, cast

from structlog.testing import capture_logs

from streams.consumers.metrics_api.api_service import ApiServiceKeeper, ServedAt
from streams.consumers.metrics_api.metrics_api_consumer import MetricsApiConsumer, MetricsApiParts
from streams.errors import GiveUp
from tests.support.api_objects import ApiObjects

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Keeper:
    """The authorities of no certificate."""

    def authorities(self) -> list[bytes]:
        return []

    def trusted(self) -> None:
        pass


def test_a_refused_registration_is_said_again_when_the_answer_changes() -> None:
    """It was said once, whatever the server answered after that, and tried each five seconds."""
    now, services, none = 0.0, ApiObjects(), cast("Any", None)
    registered = [ApiServiceKeeper(services, ServedAt("ullage", "metrics", 443), clock=lambda: now)]
    parts = MetricsApiParts(none, none, cast("Any", Keeper()), none, none, registered)
    consumer = MetricsApiConsumer(parts, ("", 0), lambda: AT)
    answers = ("403 forbidden", "422 invalid", "403 forbidden")
    with capture_logs() as lines:
        for answer in answers:
            services.refusal = GiveUp(doing="creating", to="ours", answer=answer)
            for _ in range(240):
                consumer._register()
                services.away = not services.away  # what is said for the whole process changes nothing here
                now += 5.0
    said = [line["error"] for line in lines if line["log_level"] == "warning"]
    assert said == [f"creating 'ours' did not work: {answer}" for answer in answers]
    assert services.asked <= 40
    services.refusal, services.away, now = None, False, now + 300.0
    consumer._register()
    assert services.writes == 1
