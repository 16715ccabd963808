"""The resizer, the evictor and the webhook in a process that may die right after an act, before its outcome is in the log.

    python -m tests.torture.faulty_consumer '{"brokers": ..., "cluster": ..., "url": ..., "webhook": 8080, ...}'

`die`: chance of that. `mutant`: what else is wrong with it (see `mutants`). `webhook`: the port at which reviews are answered,
without TLS.
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

from agents.logic.admission.admission_settings import AdmissionSettings
from agents.processes.admission_reviewer import AdmissionReviewer
from schemas.names import Amounts, PodName
from schemas.outcomes import Action
from schemas.units import Seconds
from streams.clients.cluster_port import Pod
from streams.clients.kube.cluster_client import KubernetesClient
from streams.codec.event_codec import Codec
from streams.consumers.pods.evictor import evictor
from streams.consumers.pods.resizer import resizer
from streams.consumers.webhook.admission import Admission
from streams.consumers.webhook.admission_view import AdmissionView
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.topics import Topics
from tests.torture import mutants

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


def serve_reviews(context: Callable[[], LogContext], port: int, stop: threading.Event) -> list[threading.Thread]:
    """The webhook's threads: its view of the log, its outcomes, and the server."""
    make = partial(AdmissionReviewer, context().cluster, settings=AdmissionSettings())
    view, outcomes = AdmissionView(context(), make, heartbeat=Seconds(3600.0)), OutcomeQueue(context())
    admission = Admission(view, outcomes)

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
    works = (partial(view.follow, stop), partial(outcomes.write, stop), server.serve_forever)
    return [threading.Thread(target=work, daemon=True) for work in works]


def main() -> None:
    told = json.loads(sys.argv[1])
    topics = Topics(told["prefix"], told["partitions"])
    Dying.die = told["die"]
    mutants.put_on(told["mutant"])
    configuration = official.Configuration()
    configuration.host = told["url"]

    def context() -> LogContext:
        return LogContext(KafkaLog(KafkaConnection(told["brokers"])), topics, Codec(topics), told["cluster"])

    executors = [make(context(), Dying(told["cluster"], official.ApiClient(configuration))) for make in (resizer, evictor)]
    stop = threading.Event()
    threads = [threading.Thread(target=executor.run, args=(stop,), daemon=True) for executor in executors]
    threads += serve_reviews(context, told["webhook"], stop)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
