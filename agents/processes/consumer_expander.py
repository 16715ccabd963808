"""Puts the expander consumer together: the server that the settings name."""

from agents.settings.all_settings import Settings
from schemas.units import Seconds
from streams.consumers.executing.executor import Executor
from streams.consumers.nodes.expander_consumer import BestOptions, expander_consumer
from streams.log_context import LogContext


def expander(context: LogContext, settings: Settings) -> Executor:
    """The expander consumer with these settings. Raises BadInput as `server`."""
    return expander_consumer(context, server(settings))


def server(settings: Settings) -> BestOptions:
    """Who is asked. Raises BadInput where the settings name no server, or gRPC is not installed."""
    from streams.clients.expander_client import ExpanderClient

    ours = settings.expander
    return ExpanderClient(ours.url, ours.certificate, Seconds(ours.timeout_seconds))
