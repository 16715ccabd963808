"""The IAM policies allow exactly the calls that our client makes, and only the consumer may change anything."""

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "deploy" / "aws"
CHANGING = {
    "autoscaling:SetDesiredCapacity",
    "autoscaling:SetInstanceProtection",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
}
SHARED = {"autoscaling:DescribeAutoScalingGroups", "ec2:DescribeInstances"}
OF_CONSUMER = CHANGING | SHARED | {"autoscaling:DescribeAutoScalingInstances"}


BATCHES = {"sqs:DeleteMessageBatch": "sqs:DeleteMessage"}
"""Calls that have no right of their own."""


def allowed(name: str) -> set[str]:
    policy = json.loads((POLICIES / f"{name}.json").read_text(encoding="utf-8"))
    assert all(statement["Effect"] == "Allow" for statement in policy["Statement"])
    return {action for statement in policy["Statement"] for action in statement["Action"]}


def asked() -> set[str]:
    """The rights that the calls of our client take."""
    tree = ast.parse((ROOT / "streams" / "clients" / "aws" / "aws_client.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_request"]
    names = [[part.value for part in call.args[:2] if isinstance(part, ast.Constant)] for call in calls]
    rights = {f"{service}:{operation}" for service, operation in names}
    return {BATCHES.get(right, right) for right in rights}


def test_the_policies_allow_exactly_what_the_client_asks_for() -> None:
    assert allowed("source-asg") | allowed("consumer-asg") == asked()


def test_only_the_consumer_may_change_anything_and_nothing_else_than_it_needs() -> None:
    assert allowed("consumer-asg") == OF_CONSUMER
    assert allowed("source-asg") == (asked() - OF_CONSUMER) | SHARED


@pytest.mark.parametrize("name", ["source-asg", "consumer-asg"])
def test_no_right_is_a_pattern(name: str) -> None:
    assert not [action for action in allowed(name) if "*" in action]


def test_what_changes_something_is_allowed_on_tagged_groups_alone() -> None:
    policy = json.loads((POLICIES / "consumer-asg.json").read_text(encoding="utf-8"))
    changing = [statement for statement in policy["Statement"] if CHANGING & set(statement["Action"])]
    assert all("aws:ResourceTag/k8s.io/cluster-autoscaler/enabled" in str(one["Condition"]) for one in changing)
