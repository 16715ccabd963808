"""The real stages, with their default settings."""

from agents import pipeline
from agents.logic.updates.settings import UpdateSettings
from agents.logic.vertical.settings import VerticalSettings

STAGES = pipeline.stages(VerticalSettings(), UpdateSettings())
