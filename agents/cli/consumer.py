"""`ullage consumer NAME...`: carry decisions out on the cluster."""

from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.options import CommonOptions, given

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
    from agents.processes import consumer as process

    process.run(given(common).settings(cluster__url=url, webhook__self_register=register), names)
