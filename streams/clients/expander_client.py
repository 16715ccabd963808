"""A client for upstream's external expander: the service `grpcplugin.Expander` of the Cluster Autoscaler, over TLS.

The format is upstream's (expander/grpcplugin/protos/expander.proto): options with the id of a group, a count, and Pods; and a
Node for each group, both as Kubernetes' own messages with the fields that say what is asked for. What comes back is somebody
else's: its length, its time and the number of its options are bounded, and of an option only the group's id is read.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from schemas.decisions.node_updates import ExpanderAsked, OfferedGroup, OfferedPods
from schemas.outcomes import OutcomeDetail
from schemas.pod_requests import CPU
from schemas.units import Seconds
from streams import protobuf_messages, secret_files
from streams.errors import BadInput, GiveUp
from streams.protobuf_messages import BOOL, BYTES, INT32, MANY, ONE, STRING

try:
    import grpc
    from google.protobuf import message
except ModuleNotFoundError as missing:
    raise BadInput(
        f"an external expander is asked with '{missing.name}', which is not installed: pip install -e '.[expander]'"
    ) from missing

METHOD: Final = "/grpcplugin.Expander/BestOptions"
MOST_ANSWER_BYTES = 4 << 20
"""Bytes of an answer; what is longer is refused before it is read."""
MOST_ANSWERED = 10_000  # options of an answer; a server may name a group more than once, and no cluster has more
MOST_POD_BYTES = 1 << 20  # of the Pods of one question, which are written twice: servers in Go take 4 MiB by default
_DOING = "asking the external expander"
_DETAILS: Final = {
    "UNAVAILABLE": OutcomeDetail.NO_ANSWER,
    "DEADLINE_EXCEEDED": OutcomeDetail.NO_ANSWER,
    "UNAUTHENTICATED": OutcomeDetail.FORBIDDEN,
    "PERMISSION_DENIED": OutcomeDetail.FORBIDDEN,
    "UNIMPLEMENTED": OutcomeDetail.NOT_FOUND,
    "RESOURCE_EXHAUSTED": OutcomeDetail.INVALID,
}
_MOST_QUOTED = 300
_CLASS: Final = protobuf_messages.classes(
    "ullage.expander",
    {
        "Quantity": (("string", 1, STRING, ONE),),
        "Amount": (("key", 1, STRING, ONE), ("value", 2, "Quantity", ONE)),
        "Label": (("key", 1, STRING, ONE), ("value", 2, STRING, ONE)),
        "ObjectMeta": (("name", 1, STRING, ONE), ("namespace", 3, STRING, ONE), ("labels", 11, "Label", MANY)),
        "Taint": (("key", 1, STRING, ONE), ("value", 2, STRING, ONE), ("effect", 3, STRING, ONE)),
        "NodeSpec": (("unschedulable", 4, BOOL, ONE), ("taints", 5, "Taint", MANY)),
        "NodeStatus": (("capacity", 1, "Amount", MANY), ("allocatable", 2, "Amount", MANY)),
        "Node": (("metadata", 1, "ObjectMeta", ONE), ("spec", 2, "NodeSpec", ONE), ("status", 3, "NodeStatus", ONE)),
        "ResourceRequirements": (("requests", 2, "Amount", MANY),),
        "Container": (("name", 1, STRING, ONE), ("resources", 8, "ResourceRequirements", ONE)),
        "PodSpec": (("containers", 2, "Container", MANY), ("nodeSelector", 7, "Label", MANY)),
        "Pod": (("metadata", 1, "ObjectMeta", ONE), ("spec", 2, "PodSpec", ONE)),
        "Option": (
            ("nodeGroupId", 1, STRING, ONE),
            ("nodeCount", 2, INT32, ONE),
            ("debug", 3, STRING, ONE),
            ("pod", 4, BYTES, MANY),
            ("podBytes", 5, BYTES, MANY),
        ),
        "NodeEntry": (("key", 1, STRING, ONE), ("value", 2, BYTES, ONE)),
        "BestOptionsRequest": (
            ("options", 1, "Option", MANY),
            ("nodeMap", 2, "NodeEntry", MANY),
            ("nodeBytesMap", 3, "NodeEntry", MANY),
        ),
        "BestOptionsResponse": (("options", 1, BYTES, MANY),),
        "ChosenOption": (("nodeGroupId", 1, BYTES, ONE),),
    },
)


class ExpanderClient:
    """Asks one server."""

    def __init__(self, url: str, certificate: Path | None, timeout: Seconds) -> None:
        """`url` is HOST:PORT, `certificate` the file of the authority of the server's. Raises BadInput without either."""
        if not url or certificate is None:
            raise BadInput(
                "an external expander needs expander.url (HOST:PORT) and expander.certificate: it is asked over TLS only"
            )
        self.url, self._certificate, self._timeout = url, certificate, timeout
        self._authority()

    def best(self, question: ExpanderAsked) -> list[str]:
        """The ids in the answer, as they stand there, bounded and perhaps of no group that there is. Raises GiveUp."""
        answer = self._answer(request(question))
        try:
            options = _CLASS["BestOptionsResponse"].FromString(answer).options[:MOST_ANSWERED]
            return [_CLASS["ChosenOption"].FromString(option).nodeGroupId.decode(errors="replace") for option in options]
        except message.DecodeError as error:
            raise self._failed(f"its answer cannot be read: {error}", OutcomeDetail.INVALID) from error

    def _authority(self) -> bytes:
        """The authority's certificate as the file has it now. Raises BadInput."""
        return secret_files.read(self._certificate, f"expander.certificate '{self._certificate}'").encode()

    def _answer(self, question: bytes) -> bytes:
        options = (
            ("grpc.max_receive_message_length", MOST_ANSWER_BYTES),
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),
            ("grpc.use_local_subchannel_pool", 1),
        )
        try:
            credentials = grpc.ssl_channel_credentials(root_certificates=self._authority())
            # A connection for each question, so that a certificate that was renewed counts at once.
            with grpc.secure_channel(self.url, credentials, options=options) as channel:
                answer: bytes = channel.unary_unary(METHOD)(question, timeout=self._timeout)
                return answer
        except BadInput as error:
            raise self._failed(str(error), OutcomeDetail.NOT_FOUND) from error
        except grpc.RpcError as error:
            code = error.code().name  # every error of a call that ended has one
            says = " ".join(str(error.details()).split())[:_MOST_QUOTED]
            raise self._failed(f"{code}: {says}", _DETAILS.get(code, OutcomeDetail.SERVER_ERROR)) from error

    def _failed(self, answer: str, detail: OutcomeDetail) -> GiveUp:
        return GiveUp(doing=_DOING, to=self.url, answer=answer, detail=detail)


def request(question: ExpanderAsked) -> bytes:
    """A question as upstream's message. Each option has as many of its Pods as its share of `MOST_POD_BYTES` takes."""
    message_out = _CLASS["BestOptionsRequest"]()
    room = MOST_POD_BYTES // max(len(question.groups), 1)
    for group in question.groups:
        pods = list(_pods_of(group, question.pods, room))
        total = sum(group.pods)
        debug = f"{group.group} (nodes: {group.nodes}, pods: {total}, listed: {len(pods)})"
        # Servers of before and after Kubernetes 1.35 read different fields, which have the same bytes.
        message_out.options.add(nodeGroupId=group.group, nodeCount=group.nodes, debug=debug, pod=pods, podBytes=pods)
        node = _node(group)
        message_out.nodeMap.add(key=group.group, value=node)
        message_out.nodeBytesMap.add(key=group.group, value=node)
    return bytes(message_out.SerializeToString())


def _pods_of(group: OfferedGroup, kinds: tuple[OfferedPods, ...], room: int) -> Iterator[bytes]:
    """The Pods of an option, kind by kind, as far as they are named and `room` bytes take them."""
    for kind, number in zip(kinds, group.pods, strict=False):
        for name in kind.names[:number]:
            pod = _pod(kind, name)
            room -= len(pod)
            if room < 0:
                return
            yield pod


def _pod(kind: OfferedPods, name: str) -> bytes:
    pod = _CLASS["Pod"]()
    pod.metadata.name, pod.metadata.namespace = name, kind.namespace
    _fill(pod.metadata.labels, kind.labels)
    container = pod.spec.containers.add(name="requests")
    _amounts(container.resources.requests, kind.requests)
    _fill(pod.spec.nodeSelector, kind.node_selector)
    return bytes(pod.SerializeToString())


def _node(group: OfferedGroup) -> bytes:
    node = _CLASS["Node"]()
    node.metadata.name = f"template-node-for-{group.group}"
    _fill(node.metadata.labels, group.labels)
    for taint in group.taints:
        node.spec.taints.add(key=taint.key, value=taint.value, effect=taint.effect)
    _amounts(node.status.capacity, group.capacity)
    _amounts(node.status.allocatable, group.allocatable)
    return bytes(node.SerializeToString())


def _fill(entries: Any, labels: Mapping[str, str]) -> None:
    for key, value in sorted(labels.items()):
        entries.add(key=key, value=value)


def _amounts(entries: Any, amounts: Mapping[str, int]) -> None:
    """Quantities as Kubernetes writes them; CPU is in thousandths."""
    for key, amount in sorted(amounts.items()):
        entries.add(key=key, value={"string": f"{amount}m" if key == CPU else str(amount)})
