"""`ullage up`: run everything that it takes to see a cluster's figures, in one terminal."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import CommonOptions, given


def up(
    *,
    kubeconfig: Annotated[Path | None, Parameter(help="The kubeconfig file; without it what kubectl would take.")] = None,
    context: Annotated[str | None, Parameter(help="The context in it; without it the current one.")] = None,
    plain: Annotated[bool, Parameter(help="Print the tables one after the other, as where no terminal is.")] = False,
    common: CommonOptions | None = None,
) -> None:
    """Watch a cluster and show what its containers request and should request. Nothing in the cluster is changed.

    Starts a broker (or takes the one of `--brokers`), the topics, a clock, both sources and a worker, shows the table and
    what every part does, and ends all of it with Ctrl-C. The logs, and the broker's data, are in .run/up. Needs the rights of
    the two sources: to list and watch pods, workloads, nodes and VPAs, and to read the metrics API. Unless `cluster.name` is set,
    the cluster is called after its context.
    """
    from agents import up as command

    command.run(given(common).load(cluster__kubeconfig=kubeconfig, cluster__context=context), plain=plain)
