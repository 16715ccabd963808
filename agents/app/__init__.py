"""The live driver: Faust hosts the stages of the pipeline, with our own turns, checkpoints and recovery.

`faust -A agents.app worker` finds `app` here. It is built from the settings when something first asks for it, so importing this
package needs neither a broker nor a settings file.
"""

from agents.app.worker_plan import Pacing, WorkerPlan

__all__ = ["Pacing", "WorkerPlan", "app", "run"]


def run(plan: WorkerPlan) -> int:
    """Work until a signal stops the process; returns the exit code.

    A failure ends the process at once, with one of the codes of `agents.app.supervision`.
    """
    from agents.app import worker

    return worker.run(plan)


def __getattr__(name: str) -> object:
    """Build `app` at first use."""
    if name != "app":
        msg = f"module '{__name__}' has no attribute '{name}'"
        raise AttributeError(msg)
    from agents.app import worker, worker_plan

    built = worker.build(worker_plan.from_settings())
    globals()["app"] = built
    return built
