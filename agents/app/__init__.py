"""The live driver: Faust hosts the pipeline's stages, with turns, checkpoints and recovery as the log demands.

`faust -A agents.app worker` finds `app` here; it is built from the settings when first asked for, so that importing this
package needs neither a broker nor a settings file. Refuses nothing itself; the parts do.
"""

from agents.app.worker_plan import Pacing, Plan

__all__ = ["Pacing", "Plan", "app", "run"]


def run(plan: Plan) -> int:
    """Work until told to stop; the exit code. A failure ends the process at once with a code of `agents.app.supervision`."""
    from agents.app import worker

    return worker.run(plan)


def __getattr__(name: str) -> object:
    """Build `app` at first use."""
    if name != "app":
        msg = f"module '{__name__}' has no attribute '{name}'"
        raise AttributeError(msg)
    from agents.app import worker, worker_from_settings

    built = worker.build(worker_from_settings.plan())
    globals()["app"] = built
    return built
