"""`ullage run PART...`: several parts of an installation in one process."""

from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import CommonOptions, given

PartName = Literal[
    "clock",
    "worker",
    "source-kube",
    "source-usage",
    "source-load",
    "source-asg",
    "consumer-resizer",
    "consumer-evictor",
    "consumer-status",
    "consumer-webhook",
    "consumer-metrics-api",
    "consumer-autoscalers",
    "consumer-asg",
    "consumer-expander",
]


def run(
    parts: Annotated[
        tuple[PartName, ...], Parameter(help="Which: each is what the command of that name runs, as `source kube`.", negative=())
    ],
    /,
    *,
    common: CommonOptions | None = None,
) -> int:
    """Run several parts in one process until stopped: a small installation in a third of the memory.

    Each part works as in a process of its own, with one page of metrics for all. The process is ready when every part is, and
    ends when one of them does. It needs the rights of all its parts, so `docs/security.md` says what to keep apart.
    """
    from agents.processes import run_parts

    return run_parts.run(given(common).settings(), parts)
