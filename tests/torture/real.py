"""The real stages, with their default settings."""

from agents import pipeline
from agents.settings.tree import Settings

STAGES = pipeline.stages(Settings())
