"""`ullage run PART...`, `worker`, `consumer NAME...` and `broker`: the processes of an installation."""

from pathlib import Path
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
    from agents.processes import one_process

    return one_process.run(given(common).settings(), parts)


def worker(*, common: CommonOptions | None = None) -> int:
    """Run the stages until stopped. Start as many as you like: they share the partitions.

    State is in the log: a worker that is killed, wherever it is, loses nothing. Exits with another code than 0 when something
    is wrong that a restart may cure.
    """
    from agents import app
    from agents.app import worker_plan

    return app.run(worker_plan.from_settings(given(common).settings()))


def broker(
    *,
    port: Annotated[int, Parameter(help="The port to listen on (loopback only); 0 takes any free one.")] = 9092,
    data: Annotated[Path | None, Parameter(help="The data folder, kept; without it a throw-away one.")] = None,
    heap: Annotated[int, Parameter(help="Java heap in MB.")] = 512,
) -> None:
    """Start a real Apache Kafka (one node, loopback, no Docker) and keep it until Ctrl-C.

    The first start fetches 38 MB of jars, checked against pinned hashes. When Kafka answers, its HOST:PORT is printed.
    """
    from agents.processes import broker as local_broker

    local_broker.run(port=port, folder=data, heap_mb=heap)


ConsumerName = Literal["resizer", "evictor", "status", "webhook", "metrics-api", "autoscalers", "asg", "expander"]


def consumer(
    names: Annotated[
        tuple[ConsumerName, ...],
        Parameter(
            help=(
                "Which: `resizer` changes requests in place, `evictor` evicts, `status` writes the status of VPA objects, "
                "`webhook` gives new pods what is recommended, `metrics-api` tells autoscalers what is forecast, "
                "`autoscalers` keeps what follows from EHPAs, and scales, `asg` lets Auto Scaling Groups grow and takes "
                "single nodes away, `expander` asks an external expander which group should grow."
            ),
            negative=(),
        ),
    ],
    /,
    *,
    url: Annotated[str | None, Parameter(help="The cluster's address, short for `--set cluster.url=URL`.")] = None,
    register: Annotated[
        bool | None,
        Parameter(help="Whether the webhook registers itself, short for `--set webhook.self_register=true` or `false`."),
    ] = None,
    common: CommonOptions | None = None,
) -> None:
    """Carry out decisions on a cluster until stopped, and append an outcome for each.

    Pods are left alone until the control topic says `apply`; nothing is done twice, however often it is restarted. The status of
    VPA objects is written in every mode, also during a pause, as it changes no pod; it needs the right to get and list
    verticalpodautoscalers, and to patch verticalpodautoscalers/status. The webhook always answers; until the control topic says
    `apply`, and during a pause, it lets every pod through as it is. See docs/webhook.md.
    The metrics API answers in every mode, too. See docs/replicas.md.
    Nodes are left alone until the control topic says `apply`, and a pause takes back what was begun. See docs/nodes.md.
    The external expander is asked in every mode, as that changes nothing.
    """
    from agents.processes import consumer as consumer_process

    consumer_process.run(given(common).settings(cluster__url=url, webhook__self_register=register), names)
