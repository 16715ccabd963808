"""`python -m tests.bench.webhook`: reviews over TLS against a view of 10,000 recommendations, and that view's cold start.

The webhook runs in a process of its own on a real Kafka: its endpoint, its server and the thread that follows the log, with a
tick each half second. Owners are answered by name, so no API server is part of it. One keep-alive connection asks at a fixed
rate; a latency is counted from the moment at which the request was due, so that a late one makes the next ones late, too. Only
when the asker, with nothing to wait for, slept for longer than it wanted to, it counts from when it woke, and says by how much.

Where there are two cores, the webhook has the first one to itself, and whatever this program starts besides shares the others.
"""

import gc
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import psutil
from prometheus_client import CollectorRegistry

from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.processes.admission_reviewer import AdmissionReviewer
from agents.processes.consumer_webhook import SWITCH
from agents.run import python_gc
from agents.telemetry import WebhookMetrics
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Workload
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from schemas.units import Bytes, Cores, Seconds
from streams import compacted_copy
from streams.admin import topic_admin
from streams.broker import Broker, BrokerSettings
from streams.codec.event_codec import Codec
from streams.consumers.webhook.admission import Admission, AdmissionView
from streams.consumers.webhook.controller_lookups import owner_lookups
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.consumers.webhook.webhook_consumer import ReviewEndpoint
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.serving.certificate_making import self_made
from streams.serving.https_server import CertificateHolder, HttpsServer
from streams.topics import Topics
from tests.support import admission_manifests, ticks
from tests.support.review_server import ReplicaSets

Put = Callable[[str, float, str, str], None]
NAMES = Topics("benchwebhook", 4)
CLUSTER, WORKLOADS = "bench", 10_000
RATES = (50, 500)
SECONDS = 20
MIB = 1 << 20


def measure(put: Put, brokers: str) -> None:
    """Fill the log, start the webhook, and ask it."""
    cores = os.sched_getaffinity(0)
    _confine(cores - {min(cores)} or cores)
    try:
        _fill_and_measure(put, brokers, min(cores))
    finally:
        _confine(cores)


def _confine(cores: set[int]) -> None:
    """Let this program, and the broker that it started, have these cores only, and whatever they start from now on."""
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        for thread in process.threads():
            with suppress(ProcessLookupError):  # it has ended since
                os.sched_setaffinity(thread.id, cores)


def _fill_and_measure(put: Put, brokers: str, core: int) -> None:
    connection = KafkaConnection(brokers)
    with topic_admin.connect(connection) as admin:
        topic_admin.apply(admin, topic_admin.plan(admin, NAMES.specs()))
    with KafkaLog(connection) as log:
        fill(log)
        stop = threading.Event()
        ticking = threading.Thread(target=_tick, args=(log, stop))
        ticking.start()
        try:
            _measure(put, brokers, core)
        finally:
            stop.set()
            ticking.join()


def _measure(put: Put, brokers: str, core: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.webhook", brokers, str(core)], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        began = json.loads(child.stdout.readline())
        put("webhook, 10k recommendations: cold start of the view", began["cold"], "s", "")
        put("  of that CPU", began["cpu"], "s", "")
        put("  records read", began["records"], "records", "")
        put("  memory of the process", psutil.Process(child.pid).memory_info().rss / MIB, "MiB", "")
        for rate in RATES:
            used = sum(psutil.Process(child.pid).cpu_times()[:2])
            took, late = asked_elsewhere(began["port"], began["authority"], rate)
            used = sum(psutil.Process(child.pid).cpu_times()[:2]) - used
            goal = ("<= 0.5", "<= 5") if rate == max(RATES) else ("", "")
            put(f"webhook over TLS, {rate} reviews/s: p50", float(np.percentile(took, 50)) * 1000, "ms", goal[0])
            put(f"webhook over TLS, {rate} reviews/s: p99", float(np.percentile(took, 99)) * 1000, "ms", goal[1])
            put(f"webhook over TLS, {rate} reviews/s: longest", max(took) * 1000, "ms", "")
            put("  the asker woke too late by, p99 (not counted)", float(np.percentile(late or [0.0], 99)) * 1000, "ms", "")
            put(f"webhook over TLS, {rate} reviews/s: CPU a review", used / len(took) * 1e6, "us", "upstream 110, in process")
        child.stdin.close()


def asked_elsewhere(port: int, authority: str, rate: int) -> tuple[list[float], list[float]]:
    """The same as `asked` from a process of its own: this one is busy with ticks."""
    command = [sys.executable, "-m", "tests.bench.webhook", "ask", str(port), str(rate)]
    answer = subprocess.run(command, input=authority, stdout=subprocess.PIPE, text=True, check=True)
    took, late = json.loads(answer.stdout)
    return took, late


def asked(port: int, context: ssl.SSLContext, rate: int) -> tuple[list[float], list[float]]:
    """Seconds that each answer took, from when it was due and the asker awake; seconds that each sleep was too long."""
    bodies = [request(n) for n in range(0, WORKLOADS, 7)]
    took, late = list[float](), list[float]()
    raw = socket.create_connection(("127.0.0.1", port))
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with context.wrap_socket(raw, server_hostname="127.0.0.1") as to:
        gc.disable()
        for body in bodies[:50]:
            exchange(to, body)
        begun = woke = time.perf_counter()
        for n in range(rate * SECONDS):
            due = begun + n / rate
            if (ahead := due - time.perf_counter()) > 0.0:
                time.sleep(ahead)
                woke = time.perf_counter()
                late.append(woke - due)
            answer = exchange(to, bodies[n % len(bodies)])
            took.append(time.perf_counter() - max(due, woke))
            assert b'"patchType"' in answer, answer
        gc.enable()
    return took, late


def exchange(to: ssl.SSLSocket, body: bytes) -> bytes:
    """One request and its answer."""
    to.sendall(body)
    answer = to.recv(1 << 16)
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(rest) < length:
        rest += to.recv(1 << 16)
    return rest


def request(n: int) -> bytes:
    """The review of a new pod of workload `n`, about as long as an API server makes it."""
    amounts = {"cpu": "100m", "memory": "128Mi"}
    owner = {"kind": "ReplicaSet", "name": f"app{n}-7f9c", "apiVersion": "apps/v1", "controller": True, "uid": "x" * 36}
    annotations = {f"example.com/annotation-{k}": "something of some length" for k in range(5)}
    manifest = admission_manifests.pod(
        admission_manifests.container("main", amounts, {"cpu": "200m", "memory": "256Mi"}),
        admission_manifests.container("sidecar", amounts),
        name=None,
        generateName=f"app{n}-7f9c-",
        namespace=f"ns{n % 100}",
        labels={"app": f"app{n}", "pod-template-hash": "7f9c"},
        annotations=annotations,
        ownerReferences=[owner],
    )
    for container in manifest["spec"]["containers"]:
        container["env"] = [{"name": f"VARIABLE_{k}", "value": "a value"} for k in range(20)]
        container["volumeMounts"] = [{"name": f"v{k}", "mountPath": f"/var/run/{k}"} for k in range(3)]
    body = json.dumps(
        admission_manifests.review(manifest, uid=f"00000000-0000-0000-0000-{n:012}", namespace=f"ns{n % 100}")
    ).encode()
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def fill(log: KafkaLog) -> None:
    """10,000 VPAs, three heartbeats of recommendations for them, and a control record."""
    at, codec = datetime.now(UTC), Codec(NAMES)
    for name in compacted_copy.COPIES:
        compacted_copy.complete(log, NAMES, name)
    control = ControlChanged(at, CLUSTER, Mode.APPLY)
    records = codec.encode_for_all(control, topic="control", key=CLUSTER, source="/bench")
    for n in range(WORKLOADS):
        event = _vpa(at, n)
        records += codec.encode_for_all(event, topic="policies", key=event.key, source="/bench")
    log.append([*records, *compacted_copy.copies_of(records, NAMES)])
    for beat in (2, 1, 0):
        log.append([_recommended(codec, at - timedelta(hours=beat), n) for n in range(WORKLOADS)])


def _vpa(at: datetime, n: int) -> VpaChanged:
    target, selector = TargetRef("Deployment", f"app{n}", "apps/v1"), (Requirement("app", Operator.IN, (f"app{n}",)),)
    return VpaChanged(at, CLUSTER, f"ns{n % 100}", f"app{n}", at, target, selector, update_mode=UpdateMode.RECREATE)


def _recommended(codec: Codec, at: datetime, n: int) -> NewRecord:
    workload = Workload(CLUSTER, f"ns{n % 100}", "Deployment", f"app{n}")
    amounts = Amounts(Cores(0.25 + n / WORKLOADS), Bytes(200 * MIB + n))
    containers = tuple(ContainerRecommendation(name, amounts, amounts, amounts, amounts) for name in ("main", "sidecar"))
    identifier = f"recommender/0/{int(at.timestamp() * 1000)}/requests/{workload.key}"
    because = {"cpu": {"percentile": 0.9, "samples": 1000, "value": 0.2, "margin": 0.15}, "policy": {"target": workload.key}}
    event = RequestsRecommended(identifier, at, workload, containers, because)
    partition = NAMES.partition_of(workload.key)
    return codec.encode(event, topic="recommendations", key=workload.key, partition=partition, source="/ullage/recommender/0")


def _tick(log: KafkaLog, stop: threading.Event) -> None:
    while not stop.wait(0.5):
        ticks.append(log, NAMES, int(time.time() * 1000))


def serve(brokers: str) -> None:
    """The webhook's process: says how its view began and where it listens, and ends with its input."""
    sys.setswitchinterval(SWITCH)
    python_gc.relax()
    made, holder = self_made(("127.0.0.1",), datetime.now(UTC)), CertificateHolder()
    holder.load(made.certificate, made.key)
    metrics = WebhookMetrics(CollectorRegistry())

    def context() -> LogContext:
        return LogContext.of(KafkaLog(KafkaConnection(brokers)), NAMES, CLUSTER)

    make = partial(AdmissionReviewer, CLUSTER, settings=AdmissionSettings())
    began, used = time.perf_counter(), time.process_time()
    view, outcomes = AdmissionView(context(), make, heartbeat=Seconds(3600.0)), OutcomeQueue(context())
    count = view.catch_up()
    cold, used = time.perf_counter() - began, time.process_time() - used
    python_gc.exempt_present_objects()
    python_gc.pause_briefly()
    ended = threading.Event()
    for work in (view.follow, outcomes.write):
        threading.Thread(target=work, args=(ended,), daemon=True).start()
    with ThreadPoolExecutor(8) as pool:
        lookups = owner_lookups(ReplicaSets(), pool, metrics, Seconds(1.0))
        endpoint = ReviewEndpoint(Admission(view, outcomes, metrics), lookups, metrics)
        with HttpsServer(endpoint.serve, holder) as server:
            about = {"cold": cold, "cpu": used, "records": count, "port": server.port, "authority": made.authorities.decode()}
            sys.stdout.write(json.dumps(about) + "\n")
            sys.stdout.flush()
            sys.stdin.read()
    ended.set()


def show(name: str, value: float, unit: str, goal: str = "") -> None:
    """One line."""
    sys.stdout.write(f"{name:<60} {value:>14,.2f} {unit:<8} {goal}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["ask"]:
        trusting = ssl.create_default_context(cadata=sys.stdin.read())
        sys.stdout.write(json.dumps(asked(int(sys.argv[2]), trusting, int(sys.argv[3]))))
    elif len(sys.argv) > 1:
        os.sched_setaffinity(0, {int(sys.argv[2])})
        serve(sys.argv[1])
    else:
        with Broker(BrokerSettings(heap_mb=512)) as broker:
            measure(show, broker.bootstrap)
