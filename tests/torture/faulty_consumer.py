"""The resizer and the evictor in a process that may die right after an act, before its outcome is in the log.

    python -m tests.torture.faulty_consumer '{"brokers": ..., "prefix": ..., "partitions": 4, "cluster": ..., "url": ...}'

`die`: chance of that. `mutant`: what else is wrong with it (see `mutants`).
"""

import json
import os
import random
import sys
import threading
from collections.abc import Mapping

from kubernetes import client as official

from schemas.names import Amounts, PodName
from schemas.outcomes import Action
from streams.clients.cluster_port import Pod
from streams.clients.kube.cluster_client import KubernetesClient
from streams.codec.event_codec import Codec
from streams.consumers.pods.evictor import evictor
from streams.consumers.pods.resizer import resizer
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.topics import Topics
from tests.torture import mutants

chance = random.Random()


class Dying(KubernetesClient):
    """Dies after what it did, now and then."""

    die = 0.0

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        super().resize(pod, requests=requests, limits=limits)
        self._maybe(Action.RESIZE, pod)

    def evict(self, pod: PodName) -> None:
        super().evict(pod)
        self._maybe(Action.EVICT, pod)

    def _maybe(self, action: Action, pod: PodName) -> None:
        if chance.random() < self.die:
            os.write(2, f"died between act and outcome {action.value} {pod.uid}\n".encode())
            os._exit(9)


def main() -> None:
    told = json.loads(sys.argv[1])
    topics = Topics(told["prefix"], told["partitions"])
    Dying.die = told["die"]
    mutants.put_on(told["mutant"])
    threads = []
    for make in (resizer, evictor):
        configuration = official.Configuration()
        configuration.host = told["url"]
        client = Dying(told["cluster"], official.ApiClient(configuration))
        context = LogContext(KafkaLog(KafkaConnection(told["brokers"])), topics, Codec(topics), told["cluster"])
        threads.append(threading.Thread(target=make(context, client).run, args=(threading.Event(),), daemon=True))
    for thread in threads:
        thread.start()
    while all(thread.is_alive() for thread in threads):
        threads[0].join(0.2)
    os._exit(1)  # a consumer that ends by itself must not leave the other one alone


if __name__ == "__main__":
    main()
