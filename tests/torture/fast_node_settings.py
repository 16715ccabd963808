"""The real stage that scales nodes, with settings under which groups grow and shrink within minutes of event time."""

from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.run import pipeline
from agents.settings.all_settings import Settings, TopicSettings
from schemas.units import Fraction, Seconds

NODES = ScalerSettings(
    interval=Seconds(10.0),
    unneeded_time=Seconds(30.0),
    unready_time=Seconds(30.0),
    delay_after_add=Seconds(20.0),
    delay_after_failure=Seconds(20.0),
    recheck=Seconds(20.0),
    max_provision=Seconds(240.0),
    backoff_first=Seconds(20.0),
    expires=Seconds(150.0),
    drain_time=Seconds(150.0),
    longest_grace=Seconds(5.0),
    most_drains=3,
    budget=Fraction(1.0),
)
STAGES = tuple(
    stage for stage in pipeline.stages(Settings(nodes=NODES, topics=TopicSettings(partitions=1))) if stage.name == "scaler"
)
