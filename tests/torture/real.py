"""The real stages, with their default settings."""

from agents import pipeline
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.vertical.vertical_settings import VerticalSettings

STAGES = pipeline.stages(VerticalSettings(), UpdateSettings())
