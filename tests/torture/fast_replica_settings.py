"""The real stage that forecasts load and plans replicas, with settings under which both change within minutes of event time."""

from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.run import pipeline
from agents.settings.all_settings import Settings, TopicSettings
from schemas.units import Seconds

REPLICAS = ForecasterSettings(
    refit=Seconds(100.0),
    fits_per_turn=20,
    interval=Seconds(20.0),
    downscale_window=Seconds(60.0),
    initialisation=Seconds(20.0),
    readiness=Seconds(20.0),
    expires=Seconds(240.0),
)
STAGES = tuple(
    stage
    for stage in pipeline.stages(Settings(replicas=REPLICAS, topics=TopicSettings(partitions=1)))
    if stage.name == "forecaster"
)
