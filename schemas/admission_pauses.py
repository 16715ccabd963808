"""How long the webhook leaves new pods of a workload as they are, because patched ones did not come. It follows from outcomes.

The webhook obeys it; the updater, which evicts nobody whose successor would get nothing, and people read the same in the log.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result

FIRST, LONGEST = timedelta(minutes=20), timedelta(hours=2)
"""How long it lasts after the first loss, and at most; each loss doubles it.

Even the shortest is longer than 1,000 s, after which a controller tries again at the latest whose pods were refused for long: a
pause that is over by then would let no pod come. Source: DefaultControllerRateLimiter in client-go's workqueue.
"""
REMEMBERED = timedelta(hours=6)
"""How long after its loss a pause makes the next one longer; outcomes that are older than this count for nothing."""
_MOST_DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class AdmissionPause:
    """The workload's new pods are left as they are. `losses`: how many there were without a pod that came."""

    losses: int
    since: datetime
    until: datetime
    reason: str

    def holds(self, now: datetime) -> bool:
        """Whether it is in force."""
        return now < self.until

    def says(self, workload: str) -> str:
        """A sentence for people."""
        return f"new pods of '{workload}' are left as they are until {self.until:%H:%M:%S} UTC: {self.reason}"


def after(pause: AdmissionPause | None, outcome: ActionFinished) -> AdmissionPause | None:
    """The pause of a workload after one more outcome of it."""
    if outcome.action is not Action.PATCH:
        return pause
    if pause is not None and (outcome.at < pause.until or outcome.at < pause.since):
        return pause  # what was offered before the pause, or is said again
    if outcome.result is Result.DONE:
        return None
    # A refusal or a failure says nothing of whether patched pods come.
    if outcome.detail is not OutcomeDetail.NOT_SEEN:
        return pause
    # One loss may be an accident of the API server; the more there were lately, the less likely the next patch is to come.
    losses = 1 if pause is None or outcome.at - pause.since >= REMEMBERED else pause.losses + 1
    # Bounded before the power, which would be beyond any timedelta after enough losses.
    length = min(FIRST * 2 ** min(losses - 1, _MOST_DOUBLINGS), LONGEST)
    return AdmissionPause(losses, outcome.at, outcome.at + length, outcome.reason)
