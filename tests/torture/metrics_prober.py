"""Asks two views of the metrics API all the time, as HPA controllers would, and keeps every answer."""

import http.client
import json
import ssl
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from schemas.policies.ehpa import ehpa_key
from tests.torture import replica_load
from tests.torture.generated_load import Clock
from tests.torture.replica_judge import Answer

NAMES = replica_load.DIRECT + replica_load.KEPT
TIMEOUT = 5.0
BETWEEN = 0.03
"""Seconds of real time between two questions."""


@dataclass
class MetricsProber:
    """At work between `open` and `close`. `unanswered` counts by cause; who hangs up or is not there answers nothing."""

    ports: Sequence[int]
    certificate: Path
    clock: Clock
    answers: list[Answer] = field(default_factory=list)
    unanswered: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask_all, args=(view,), daemon=True) for view in range(len(self.ports))]
        self._trust = ssl.create_default_context()
        self._trust.check_hostname, self._trust.verify_mode = False, ssl.CERT_NONE
        self._trust.load_cert_chain(self.certificate)

    def open(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(2 * TIMEOUT)

    @property
    def outdated(self) -> int:
        """How often a view said that what it knows has expired."""
        return sum("outdated" in answer.text for answer in list(self.answers))

    def _ask_all(self, view: int) -> None:
        connection, number = self._connection(view), 0
        while not self._stop.wait(BETWEEN):
            number += 1
            try:
                self._ask(connection, view, NAMES[number % len(NAMES)])
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.unanswered[type(error).__name__] += 1
                connection.close()
                connection = self._connection(view)

    def _connection(self, view: int) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.ports[view], context=self._trust, timeout=TIMEOUT)

    def _ask(self, connection: http.client.HTTPSConnection, view: int, name: str) -> None:
        identifier = replica_load.identifier(name)
        labels = (
            f"targetKind=Deployment,targetName={name},targetNamespace={replica_load.NAMESPACE},resourceIdentifier={identifier}"
        )
        path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{replica_load.NAMESPACE}/crane_autoscaling_prediction"
        begun = self.clock() / 1000
        connection.request("GET", f"{path}?labelSelector={quote(labels)}", headers={"X-Remote-User": "hpa"})
        response = connection.getresponse()
        said = json.loads(response.read())
        key = ehpa_key(replica_load.CLUSTER, replica_load.NAMESPACE, name)
        if response.status != http.client.OK:
            self.answers.append(Answer(view, key, identifier, begun, None, str(said.get("message"))))
            return
        (item,) = said["items"]
        at = datetime.fromisoformat(item["timestamp"]).timestamp()
        if not begun - 1.0 <= at <= self.clock() / 1000:
            raise ValueError(f"view {view} answered for another time than it was asked at")
        self.answers.append(Answer(view, key, identifier, at, _milli(item["value"])))


def _milli(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else 1000 * int(quantity)
