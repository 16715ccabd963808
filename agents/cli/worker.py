"""`ullage worker`: host the stages on Faust."""

from agents.cli.options import CommonOptions, given


def worker(*, common: CommonOptions | None = None) -> int:
    """Run the stages until stopped. Start as many as you like: they share the partitions.

    State is in the log: a worker that is killed, wherever it is, loses nothing. Exits with another code than 0 when something
    is wrong that a restart may cure.
    """
    from agents import app
    from agents.app import worker_plan

    return app.run(worker_plan.from_settings(given(common).settings()))
