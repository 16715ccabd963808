"""The resizer, the evictor and the webhook of some clusters in a process that may die after an act, before its outcome is out.

    python -m tests.torture.faulty_consumer '{"brokers": ..., "die": 0.03, "clusters": [{"cluster": ..., "url": ..., ...}]}'

`die`: chance of that. Of a cluster, `webhook` is the port at which reviews are answered, without TLS; `leases` is where Leases
are, and `identity` what an instance's own name begins with; `mutant` is what else is wrong with its consumers (see
`mutant_consumers`).
"""

import json
import os
import random
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubernetes import client as official

from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.processes.admission_reviewer import AdmissionReviewer
from schemas.names import Amounts, PodName
from schemas.outcomes import Action
from schemas.units import Seconds
from streams.clients.cluster_port import Pod
from streams.clients.kube.api import Api
from streams.clients.kube.cluster_client import KubernetesClient
from streams.consumers.evictor import evictor
from streams.consumers.executing.holder_lease import HolderLease, leases
from streams.consumers.resizer import resizer
from streams.consumers.webhook.admission import Admission, AdmissionView
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.topics import Topics
from tests.torture import mutant_consumers
from tests.torture.mutant_consumers import Parts
from tests.torture.processes import end_with_any_thread

LEASE_TIMEOUT = Seconds(3.0)
chance = random.Random()


class Dying(KubernetesClient):
    """Dies now and then after the cluster accepted something."""

    die = 0.0

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        super().resize(pod, requests=requests, limits=limits)
        self._maybe(Action.RESIZE, pod.pod)

    def evict(self, pod: PodName) -> None:
        super().evict(pod)
        self._maybe(Action.EVICT, pod)

    def _maybe(self, action: Action, pod: PodName) -> None:
        if chance.random() < self.die:
            os.write(2, f"died between act and outcome {action.value} {pod.uid}\n".encode())
            os._exit(9)


def serve_reviews(
    context: Callable[[], LogContext], made: type[Admission], port: int, stop: threading.Event
) -> list[threading.Thread]:
    """The webhook's threads: its view of the log, its outcomes, and the server."""
    make = partial(AdmissionReviewer, context().cluster, settings=AdmissionSettings())
    view, outcomes = AdmissionView(context(), make, heartbeat=Seconds(3600.0)), OutcomeQueue(context())
    admission = made(view, outcomes)

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer = admission.answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Answering)
    works = (partial(view.follow, stop), partial(outcomes.write, stop, admission.settle), server.serve_forever)
    return [threading.Thread(target=work, daemon=True) for work in works]


def consumers(told: Mapping[str, Any], cluster: Mapping[str, Any], stop: threading.Event) -> list[threading.Thread]:
    """The threads of one cluster's consumers."""
    topics = Topics(told["prefix"], told["partitions"])
    parts = mutant_consumers.MUTANTS.get(cluster["mutant"], Parts(client=Dying))

    def api(url: str) -> official.ApiClient:
        return official.ApiClient(official.Configuration(host=url))

    def context() -> LogContext:
        return LogContext(KafkaLog(KafkaConnection(told["brokers"])), topics, parts.codec(topics), cluster["cluster"])

    def client() -> KubernetesClient:
        return parts.client(cluster["cluster"], api(cluster["url"]))

    def lease(action: Action) -> HolderLease:
        identity = f"{cluster['identity']}{os.getpid()}"
        return parts.lease(
            leases(Api(api(cluster["leases"]), timeout=LEASE_TIMEOUT), "ullage"), f"ullage-{action.value}", identity
        )

    executors = [
        resizer(context(), client(), lease(Action.RESIZE)),
        evictor(context(), client(), lease=lease(Action.EVICT)),
    ]
    threads = [threading.Thread(target=executor.run, args=(stop,), daemon=True) for executor in executors]
    return threads + serve_reviews(context, parts.admission, cluster["webhook"], stop)


def main() -> None:
    told = json.loads(sys.argv[1])
    end_with_any_thread()
    Dying.die = told["die"]
    stop = threading.Event()
    threads = [thread for cluster in told["clusters"] for thread in consumers(told, cluster, stop)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
