"""Facts: what a source saw. Past tense, never a judgement."""

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.facts.vpa_checkpoints import CheckpointSeen

Fact = MetricsScraped | ContainerOOMKilled | PodChanged | PodDeleted | CheckpointSeen | NodeChanged | NodeRemoved | SourceReported
