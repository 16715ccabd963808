"""Judges what the webhook did to new pods: the patches that the cluster was given against recommendations, outcomes and pauses.

It knows nothing of how the webhook works. A new pod is given what was recommended for its workload last, and nothing under a
pause; each patched pod that came has one outcome that says done, except where the process ended before it could be written; and
nothing else is called done, above all no pod that the cluster refused. Of the new pods that it answered for and had no reason to
pass over nearly all are patched, because a webhook that lets everything through would do nothing wrong otherwise. Real times are
seconds since the epoch, of one machine.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.outcomes import Result
from tests.torture.judge import PAUSE_KNOWN, Answer, Asked, ConsumerHistory, Pause

GRACE = 1.0
"""Seconds of real time within which the webhook may not have read yet that there is a pause."""
READ_WITHIN = 60.0
"""Seconds within which the webhook may not have read a newer recommendation yet; the broker may be away."""
WRITTEN_WITHIN = 30.0
"""Seconds between a patch and the end of the process that kept its outcome from being written; the log may be away."""

KNOWN_AFTER = 30.0
"""Seconds after the end of a process in which its successor may not have caught up with the log yet."""
MOST_PASSED_OVER = 0.2
"""Share of the new pods that are due a patch and may yet get none, because a look at them took too long."""
FEW = 5
"""Pods that are too few to speak of a share."""


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod that the webhook was asked about at `at`, and what it was `given` then. `answered`: whether the webhook did."""

    uid: str
    workload: str
    given: Asked
    patched: bool
    answered: bool
    at: float
    came: bool = True
    """Whether the cluster made it; it may refuse a pod after the webhook has answered."""
    warnings: tuple[str, ...] = ()
    """What the webhook's answer told the user."""


@dataclass(frozen=True, slots=True)
class Recommended:
    """What the log holds for a workload since `at`."""

    workload: str
    asked: Asked
    at: float


def judge_admission(
    pods: Sequence[NewPod],
    recommended: Sequence[Recommended],
    answers: Mapping[str, Sequence[Answer]],
    history: ConsumerHistory,
) -> tuple[Counter[str], list[str]]:
    """Figures, and sentences about what is wrong. `answers` are the outcomes of each pod, by uid."""
    known: defaultdict[str, list[Recommended]] = defaultdict(list)
    for one in sorted(recommended, key=lambda one: one.at):
        known[one.workload].append(one)
    wrong: list[str] = []
    for pod in pods:
        done = [answer for answer in answers.get(pod.uid, ()) if answer.result is Result.DONE]
        wrong += _wrong_patch(pod, known[pod.workload], history.pauses) if pod.patched else ()
        different = {(answer.decision, answer.reason, answer.event_time) for answer in done}
        if len(different) > 1:
            wrong.append(f"the patch of {pod.uid[:8]} has {len(different)} outcomes that differ")
        if done and not pod.came:
            wrong.append(f"{pod.uid[:8]} is called patched, but the cluster refused it")
        if done and pod.answered and not pod.patched:
            wrong.append(f"{pod.uid[:8]} is called patched, but was let through as it was")
        if pod.patched and pod.came and not done and not any(0 <= end - pod.at <= WRITTEN_WITHIN for end in history.ends):
            wrong.append(f"{pod.uid[:8]} was patched, but no outcome says so")
    due = [pod for pod in pods if pod.answered and _due(pod, known[pod.workload], history)]
    given = sum(pod.patched for pod in due)
    if len(due) >= FEW and given < (1 - MOST_PASSED_OVER) * len(due):
        says = sorted({warning for pod in due if not pod.patched for warning in pod.warnings})
        why = f"; the webhook said of the others: {says}" if says else ""
        wrong.append(f"only {given} of {len(due)} new pods were patched that should have been{why}")
    asked = {pod.uid for pod in pods}
    wrong += [f"outcome of a patch of {uid[:8]}, which the webhook was never asked for" for uid in answers if uid not in asked]
    figures = Counter(
        {
            "refused pods": sum(not pod.came for pod in pods),
            "new pods": len(pods),
            "due a patch": len(due),
            "patched": sum(pod.patched for pod in pods),
        }
    )
    return figures, wrong


def _due(pod: NewPod, known: Sequence[Recommended], history: ConsumerHistory) -> bool:
    """Whether nothing excuses a webhook that lets a pod through as it is."""
    excused = (
        not any(one.at <= pod.at - READ_WITHIN for one in known),
        pod.at >= history.off_since,
        any(pause.begin <= pod.at <= pause.end + PAUSE_KNOWN for pause in history.pauses),
        any(0 <= pod.at - end <= KNOWN_AFTER for end in history.ends),
    )
    return not any(excused)


def _wrong_patch(pod: NewPod, known: Sequence[Recommended], pauses: Sequence[Pause]) -> Iterator[str]:
    """`known`: what was recommended for the pod's workload, in order."""
    before = [one for one in known if one.at <= pod.at]
    given = [number for number, one in enumerate(before) if one.asked == pod.given]
    if not given:
        yield f"{pod.uid[:8]} was given what nobody had recommended"
    elif len(before) > given[-1] + 1 and before[given[-1] + 1].at < pod.at - READ_WITHIN:
        yield f"{pod.uid[:8]} was given what had been recommended before something else was"
    if any(pause.begin + GRACE < pod.at <= pause.end for pause in pauses):
        yield f"{pod.uid[:8]} was patched under a pause"
