"""`ullage status`: what time it is in the log, what is allowed, and what was decided and done lately."""

from agents.cli.options import CommonOptions, given


def status(*, common: CommonOptions | None = None) -> None:
    """Print the newest tick, the cluster's mode, how far the stages are, the last hour's decisions and outcomes, dead letters.

    An hour of event time before the newest tick. Reads only.
    """
    from agents.inspect import status as command

    command.run(given(common).settings())
