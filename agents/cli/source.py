"""`ullage source NAME`: put ticks or facts into the log until stopped."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, given

app = App(name="source", help="Put ticks or facts into the log until stopped.")


@app.command
def clock(
    *,
    speed: Annotated[float | None, Parameter(help="Event time for each second of real time, in seconds.")] = None,
    in_step: Annotated[
        bool,
        Parameter(help="Wait after each tick, for a second at most, until a scrape of its time is there, and leave no tick out."),
    ] = False,
    common: CommonOptions | None = None,
) -> None:
    """Tick: the one thing that every turn waits for. Any number of clocks may run at once."""
    from agents.processes import source_clock

    source_clock.run(given(common).settings(clock__speed=speed), in_step=in_step)


@app.command
def simulated(
    *,
    port: Annotated[int, Parameter(help="The port that the cluster answers on (loopback only).")] = 8899,
    seed: Annotated[int | None, Parameter(help="Same seed, same day.")] = None,
    common: CommonOptions | None = None,
) -> None:
    """Run a simulated cluster on the log's ticks: its facts go into the log, and it answers like an API server on a port."""
    from agents.processes import source_simulated

    source_simulated.run(given(common).settings(cluster__seed=seed), port)


@app.command
def traces(
    file: Annotated[Path, Parameter(help="A usage trace: Parquet or CSV, or a folder with usage.parquet.")],
    *,
    speed: Annotated[
        float, Parameter(help="Trace time for each second of real time, in seconds; 0 as fast as the log takes it.")
    ] = 1.0,
    seconds: Annotated[float | None, Parameter(help="Instead of a speed: how long the whole trace takes in real time.")] = None,
    common: CommonOptions | None = None,
) -> None:
    """Play a recorded usage trace into the log, in real time or faster, with its own ticks. Ends with the trace."""
    from agents.processes import source_traces

    source_traces.run(given(common).settings(), file, speed, seconds)


@app.command
def usage(*, common: CommonOptions | None = None) -> None:
    """Publish what containers use, each minute, by the metrics API or by Prometheus (`usage.reads`).

    Which workload a pod is of is read from the log, so a source of pods must run, too. Needs the right to list pods of
    metrics.k8s.io, and no other.
    """
    from agents.processes import source_usage

    source_usage.usage(given(common).settings())


@app.command(name="remote-write")
def remote_write(*, common: CommonOptions | None = None) -> None:
    """Take in what Prometheus (remote-write 1.0 and 2.0) and OpenTelemetry Collectors (OTLP/HTTP) send of containers' usage.

    Short for `source usage` with `usage.reads: remote-write`: the same figures as by asking that Prometheus, each minute. Needs
    `pip install -e '.[receive]'`, a source of pods, and no rights in the cluster.
    """
    from agents.processes import source_usage

    source_usage.usage(given(common).settings(usage__reads="remote-write"))


@app.command
def history(
    *,
    until: Annotated[
        datetime | None, Parameter(help="The end of the history, with an offset from UTC; now if not given.")
    ] = None,
    force: Annotated[bool, Parameter(help="Add it though the log holds usage from after its beginning already.")] = False,
    common: CommonOptions | None = None,
) -> None:
    """Put what Prometheus remembers into the log, once, before the usage source runs: upstream's `--storage=prometheus`.

    Pods are matched to workloads by what the log says of them, and those that are gone by their labels and the log's VPAs.
    """
    from agents.processes import source_usage

    source_usage.history(given(common).settings(), until=until, force=force)


@app.command
def load(*, common: CommonOptions | None = None) -> None:
    """Publish what Prometheus says of the loads by which EHPAs scale, each minute, and once what it remembers of each.

    Which queries there are follows from the objects in the log: annotations, or defaults. A query that gives several series,
    or an answer beyond `load.most_bytes`, is refused with the reason, which the EHPA then says. Needs no rights in the cluster.
    """
    from agents.processes import source_load

    source_load.run(given(common).settings())


@app.command
def kube(
    *,
    namespace: Annotated[
        tuple[str, ...] | None, Parameter(help="Only this namespace (may be given again), short for `cluster.namespaces`.")
    ] = None,
    common: CommonOptions | None = None,
) -> None:
    """Watch a Kubernetes cluster: pods, kills, nodes, VPAs and limit ranges, published as they change.

    Needs the rights of deploy/helm/ullage/rbac/source-kube.yaml: to list and watch what it publishes, and to get the scale of
    controllers of other kinds. Writes nothing to the cluster but the status of objects that command it.
    """
    from agents.processes import source_kube

    source_kube.run(given(common).settings(cluster__namespaces=namespace))


@app.command
def asg(
    *,
    discovery: Annotated[
        tuple[str, ...] | None,
        Parameter(help="Groups by tags, `asg:tag=KEY,KEY=VALUE` (may be given again), short for `aws.discovery`."),
    ] = None,
    group: Annotated[
        tuple[str, ...] | None, Parameter(help="A group by name, `min:max:name` (may be given again), short for `aws.groups`.")
    ] = None,
    common: CommonOptions | None = None,
) -> None:
    """Watch Auto Scaling Groups on AWS: sizes, templates, instances and failed launches, published as they change.

    Needs the AWS SDK (`pip install -e '.[aws]'`) and the rights of deploy/aws/source-asg.json. Writes nothing to AWS.
    """
    from agents.processes import source_asg

    source_asg.run(given(common).settings(aws__discovery=discovery, aws__groups=group))
