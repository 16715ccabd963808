"""What a shadow policy would recommend, beside the actual recommendation: same workloads, same evidence, same turn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.engine.turn import Decided
from agents.logic.vertical.decision_builder import RecommendationBatch, UsageNumbers
from agents.logic.vertical.recommended_amounts import Recommendation
from agents.logic.vertical.vertical_settings import BUILT_IN, NAME
from schemas.decisions.recommendations import ContainerDifference, ContainerRecommendation, ShadowCompared, ShadowRecommended
from schemas.ids import DecisionId
from schemas.names import Workload

RECOMMENDATIONS, DIFFERENCES = "shadow-recommendations", "shadow-differences"
"""Short names of the topics that shadow recommendations are published in."""


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    """A turn's announcements, and the same containers judged by the shadow policy."""

    batch: RecommendationBatch
    shadow: Recommendation

    def decided(self) -> Iterator[Decided]:
        """Two decisions about each workload that is announced."""
        places = self.batch.places
        theirs = UsageNumbers(self.shadow, places)
        for number, subject in enumerate(self.batch.subjects):
            containers = range(self.batch.begins[number], self.batch.begins[number + 1])
            names = [self.batch.containers[place][1] for place in containers]
            ours = [self.batch.numbers.container(place, name) for place, name in zip(containers, names, strict=True)]
            other = [theirs.container(place, name) for place, name in zip(containers, names, strict=True)]
            yield from self._about(subject, number, ours, other)

    def _about(
        self, subject: str, number: int, ours: Sequence[ContainerRecommendation], other: Sequence[ContainerRecommendation]
    ) -> Iterator[Decided]:
        builder, grounds = self.batch.builder, self.batch.grounds[number]
        # Both are announced in one turn, so a comparison is paired, needs no state, and is at most one heartbeat old.
        settings, turn = builder.settings, builder.turn
        pairs = tuple(
            ContainerDifference(mine.container, mine.target, their.target) for mine, their in zip(ours, other, strict=True)
        )
        shadow = ShadowRecommended(
            id=str(DecisionId(NAME, builder.partition, turn.number, "shadow", subject)),
            at=turn.at,
            workload=Workload.parse(subject),
            policy=settings.shadow_policy,
            containers=tuple(other),
            pods=grounds.pods,
            reason=self.shadow.fault,
            rules=builder.cited,
        )
        yield Decided(RECOMMENDATIONS, subject, shadow, grounds.cause)
        compared = ShadowCompared(
            id=str(DecisionId(NAME, builder.partition, turn.number, "shadow-difference", subject)),
            at=turn.at,
            workload=shadow.workload,
            in_force=settings.policy or BUILT_IN,
            shadow=settings.shadow_policy,
            containers=pairs,
            pods=grounds.pods,
            cores=grounds.pods * sum(_more(pair.in_force.cpu, pair.shadow.cpu) for pair in pairs),
            bytes=grounds.pods * sum(_more(pair.in_force.memory, pair.shadow.memory) for pair in pairs),
            rules=builder.cited,
        )
        yield Decided(DIFFERENCES, subject, compared, grounds.cause)


def _more(in_force: float | None, shadow: float | None) -> float:
    return 0.0 if in_force is None or shadow is None else float(shadow) - in_force
