"""The AWS API as moto's server has it, on loopback, with what moto leaves out: refusals, missing capacity, activities and bounds.

    def test_a_group_grows(aws: AwsDouble) -> None:
        aws.group("pool", least=0, most=5, desired=1)
        aws.refuse("SetDesiredCapacity", "Throttling", "Rate exceeded", times=1)

`aws` comes from `tests.support.aws_double`; import it into a test module as a fixture. `aws.client()` is our own client on it,
`aws.calls("SetDesiredCapacity")` has the arguments of each such call that was carried out, in order.
"""

import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import pytest

from schemas.units import Seconds
from streams.clients.aws.aws_client import AwsClient, AwsOptions, connect

REGION = "eu-central-1"
ZONES = (f"{REGION}a", f"{REGION}b")
_NAMESPACE = "http://autoscaling.amazonaws.com/doc/2011-01-01/"
_STOP = 10.0
_TYPES = (
    "<R><instanceTypeSet>"
    + "".join(
        f"<item><instanceType>{name}</instanceType><vCpuInfo><defaultVCpus>{cpus}</defaultVCpus></vCpuInfo>"
        f"<memoryInfo><sizeInMiB>{memory}</sizeInMiB></memoryInfo>"
        f"<processorInfo><supportedArchitectures><item>{processor}</item></supportedArchitectures></processorInfo>"
        + (f"<gpuInfo><gpus><item><count>{gpus}</count></item></gpus></gpuInfo>" if gpus else "")
        + "</item>"
        for name, cpus, memory, processor, gpus in (
            ("m5.large", 2, 8192, "x86_64", 0),
            ("c5.xlarge", 4, 8192, "x86_64", 0),
            ("m6g.large", 2, 8192, "arm64", 0),
            ("p3.8xlarge", 32, 249856, "x86_64", 4),
        )
    )
    + "</instanceTypeSet></R>"
)
"""Moto has all thousand of them, and takes ten seconds of CPU to say so."""


@dataclass
class _Refusal:
    code: str
    message: str
    status: int
    left: int


@dataclass
class _DoubleState:
    refusals: dict[str, list[_Refusal]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    activities: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    refreshes: dict[str, str] = field(default_factory=dict)
    down: bool = False


class AwsDouble:
    """One server; `reset` gives an empty account."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._state = _DoubleState()
        self._lock = threading.Lock()
        self._client: AwsClient | None = None
        self._sdk: dict[str, Any] = {}
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=MotoRequestHandler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_STOP)

    def reset(self) -> None:
        """An empty account that refuses nothing."""
        from moto.backends import get_backend

        for name in ("autoscaling", "ec2", "sqs", "eks"):
            get_backend(name).reset()
        self._state = _DoubleState(answers={"DescribeInstanceTypes": _TYPES})

    def client(self) -> AwsClient:
        """Our client on it, made once: the SDK takes half a second for one."""
        if self._client is None:
            self._client = connect(AwsOptions(REGION, self.url, Seconds(30.0)))
        return self._client

    def sdk(self, service: str) -> Any:
        """The SDK's own client on it, to set scenes."""
        import boto3

        if service not in self._sdk:
            self._sdk[service] = boto3.client(service, region_name=REGION, endpoint_url=self.url)
        return self._sdk[service]

    # Scenes

    def template(self, name: str, instance_type: str = "m5.large", **data: Any) -> str:
        """A launch template; its id."""
        ec2 = self.sdk("ec2")
        image = ec2.register_image(Name=name, Architecture="x86_64", VirtualizationType="hvm")["ImageId"]
        made = ec2.create_launch_template(
            LaunchTemplateName=name, LaunchTemplateData={"ImageId": image, "InstanceType": instance_type, **data}
        )
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def group(
        self,
        name: str,
        *,
        least: int = 0,
        most: int = 10,
        desired: int = 0,
        zones: tuple[str, ...] = ZONES[:1],
        tags: Mapping[str, str] | None = None,
        template: str = "",
        **more: Any,
    ) -> list[str]:
        """A group of a launch template of its own (m5.large), unless another is named; the ids of its instances."""
        if "MixedInstancesPolicy" not in more and "LaunchConfigurationName" not in more:
            more["LaunchTemplate"] = {"LaunchTemplateId": template or self.template(f"{name}-template"), "Version": "$Latest"}
        kept = [
            {"Key": key, "Value": value, "ResourceId": name, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": False}
            for key, value in (tags or {}).items()
        ]
        self.sdk("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=least,
            MaxSize=most,
            DesiredCapacity=desired,
            AvailabilityZones=list(zones),
            Tags=kept,
            **more,
        )
        self._state.calls.clear()
        return self.instances(name)

    def queue(self, name: str = "ullage-interruptions") -> str:
        """A queue; its URL."""
        return str(self.sdk("sqs").create_queue(QueueName=name, Attributes={"VisibilityTimeout": "1"})["QueueUrl"])

    def instances(self, group: str) -> list[str]:
        """The ids of a group's instances."""
        return [state.instance.id for state in self._group(group).instance_states]

    def desired(self, group: str) -> int:
        return int(self._group(group).desired_capacity)

    def running(self, instance: str) -> bool:
        """Whether EC2 runs it."""
        from moto.backends import get_backend

        found = get_backend("ec2")["123456789012"][REGION].get_instance(instance)
        return bool(found.state == "running")

    def type_of(self, group: str, instance: str) -> str:
        """The type of an instance of a group."""
        (found,) = [one for one in self._group(group).instance_states if one.instance.id == instance]
        return str(found.instance.instance_type)

    def gives(self, group: str, instance_type: str) -> None:
        """From now on the instances of a mixed group come as this type; its present ones stay what they are."""
        found = self._group(group)
        given = type(found).set_desired_capacity

        def choose(capacity: int | None) -> None:
            before = set(self.instances(group))
            given(found, capacity)
            for state in found.instance_states:
                if state.instance.id not in before:
                    state.instance.instance_type = state.instance_type = instance_type

        found.set_desired_capacity = choose

    def lifecycle(self, group: str, instance: str, state: str) -> None:
        """Give an instance of a group another lifecycle state."""
        (found,) = [one for one in self._group(group).instance_states if one.instance.id == instance]
        found.lifecycle_state = state

    def switch(self, group: str, **switches: Any) -> None:
        """Give a group switches that AWS tells of a group and moto does not know, in the SDK's words in snake case."""
        for name, value in switches.items():
            setattr(self._group(group), name, value)

    def refresh(self, group: str, status: str) -> None:
        """The newest instance refresh of a group has this status."""
        self._state.refreshes[group] = status

    def lack_capacity(self, group: str, message: str) -> None:
        """From now on the group starts nothing: each raise ends in an activity that failed with this message."""
        found = self._group(group)
        given = found.set_desired_capacity

        def refuse(capacity: int | None) -> None:
            if (capacity or 0) < len(found.instance_states):
                given(capacity)  # moto chooses victims, as AWS does
                return
            more = (capacity or 0) > len(found.instance_states)
            found.desired_capacity = capacity
            if more:
                self.fail(group, message)

        found.set_desired_capacity = refuse

    def deliver(self, group: str) -> None:
        """From now on the group starts again what it wants."""
        found = self._group(group)
        del found.set_desired_capacity
        found.set_desired_capacity(found.desired_capacity)

    def fail(self, group: str, message: str, *, ago: timedelta = timedelta(), details: str = "") -> str:
        """A scaling activity that failed; its id."""
        number = sum(map(len, self._state.activities.values())) + 1
        activity = {
            "ActivityId": f"activity-{number}",
            "AutoScalingGroupName": group,
            "Cause": "somebody wanted more",
            "StatusCode": "Failed",
            "StatusMessage": message,
            "Details": details or f'{{"Subnet ID":"subnet-1","Availability Zone":"{ZONES[0]}"}}',
            "StartTime": (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "Progress": "100",
        }
        self._state.activities.setdefault(group, []).insert(0, activity)
        return activity["ActivityId"]

    # Faults

    def refuse(self, action: str, code: str, message: str = "no", *, status: int = 400, times: int = 1) -> None:
        """Refuse the next calls of an action."""
        self._state.refusals.setdefault(action, []).append(_Refusal(code, message, status, times))

    def answer(self, action: str, body: str) -> None:
        """Answer an action that moto does not know with the inside of its XML."""
        self._state.answers[action] = body

    @property
    def down(self) -> bool:
        """Whether each connection is dropped without an answer."""
        return self._state.down

    @down.setter
    def down(self, down: bool) -> None:
        self._state.down = down

    def calls(self, action: str) -> list[dict[str, str]]:
        """The arguments of the calls of an action that were carried out, in order."""
        return [arguments for name, arguments in self._state.calls if name == action]

    def _group(self, name: str) -> Any:
        from moto.backends import get_backend

        return get_backend("autoscaling")["123456789012"][REGION].autoscaling_groups[name]

    def _answer(self, environ: dict[str, Any], start: Any) -> Any:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        arguments = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = arguments.pop("Action", "")
        with self._lock:
            if self._state.down:
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                return []
            refused = self._refusal(action, arguments)
            if refused is not None:
                return _send(start, refused.status, _error(environ, refused))
            self._state.calls.append((action, arguments))
            if action == "DescribeScalingActivities":
                return _send(start, 200, _activities(self._state.activities.get(arguments["AutoScalingGroupName"], [])))
            if action == "DescribeInstanceRefreshes":
                return _send(start, 200, _refreshes(self._state.refreshes.get(arguments["AutoScalingGroupName"])))
            if action in self._state.answers:
                return _send(start, 200, self._state.answers[action])
            return list(self._moto(environ, start))

    def _refusal(self, action: str, arguments: Mapping[str, str]) -> _Refusal | None:
        """What was asked for, else what AWS itself refuses and moto lets pass."""
        for one in self._state.refusals.get(action, []):
            if one.left > 0:
                one.left -= 1
                return one
        if action == "SetDesiredCapacity":
            group, wanted = self._group(arguments["AutoScalingGroupName"]), int(arguments["DesiredCapacity"])
            if wanted > group.max_size:
                return _Refusal(
                    "ValidationError", f"New SetDesiredCapacity value {wanted} is above max value {group.max_size}", 400, 1
                )
        if action == "TerminateInstanceInAutoScalingGroup":
            return self._last_refusal(arguments["InstanceId"], shrinks=arguments["ShouldDecrementDesiredCapacity"] == "true")
        return None

    def _last_refusal(self, instance: str, *, shrinks: bool) -> _Refusal | None:
        from moto.backends import get_backend

        groups = get_backend("autoscaling")["123456789012"][REGION].autoscaling_groups.values()
        for group in groups:
            if instance in [state.instance.id for state in group.instance_states]:
                if group.desired_capacity > group.min_size or not shrinks:
                    return None
                said = f"Currently, desiredSize equals minSize ({group.min_size}). Terminating instance without replacement will"
                return _Refusal("ValidationError", f"{said} violate group's min size constraint.", 400, 1)
        return _Refusal(
            "ValidationError", f"Instance Id not found - No managed instance found for instance ID: {instance}", 400, 1
        )


def _send(start: Any, status: int, body: str) -> list[bytes]:
    start(f"{status} Answer", [("Content-Type", "text/xml")])
    return [body.encode()]


def _error(environ: Mapping[str, Any], refused: _Refusal) -> str:
    said = f"<Error><Type>Sender</Type><Code>{escape(refused.code)}</Code><Message>{escape(refused.message)}</Message></Error>"
    if "/ec2/" in str(environ.get("HTTP_AUTHORIZATION")):
        return f"<Response><Errors>{said}</Errors><RequestID>test</RequestID></Response>"
    return f'<ErrorResponse xmlns="{_NAMESPACE}">{said}<RequestId>test</RequestId></ErrorResponse>'


def _activities(found: list[dict[str, str]]) -> str:
    members = "".join(
        "<member>" + "".join(f"<{name}>{escape(value)}</{name}>" for name, value in one.items()) + "</member>" for one in found
    )
    result = f"<DescribeScalingActivitiesResult><Activities>{members}</Activities></DescribeScalingActivitiesResult>"
    return f'<DescribeScalingActivitiesResponse xmlns="{_NAMESPACE}">{result}</DescribeScalingActivitiesResponse>'


def _refreshes(status: str | None) -> str:
    member = "" if status is None else f"<member><InstanceRefreshId>r-1</InstanceRefreshId><Status>{status}</Status></member>"
    result = f"<DescribeInstanceRefreshesResult><InstanceRefreshes>{member}</InstanceRefreshes></DescribeInstanceRefreshesResult>"
    return f'<DescribeInstanceRefreshesResponse xmlns="{_NAMESPACE}">{result}</DescribeInstanceRefreshesResponse>'


@pytest.fixture(scope="module")
def aws_server() -> Iterator[AwsDouble]:
    """One server for a test module: it takes two seconds to load."""
    before = dict(os.environ)
    os.environ.update(dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test"))
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    double = AwsDouble()
    try:
        yield double
    finally:
        double.close()
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def aws(aws_server: AwsDouble) -> AwsDouble:
    """An empty account."""
    aws_server.reset()
    return aws_server
