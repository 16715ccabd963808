"""Numbers of replicas that nobody should ask a cluster for are refused with the number and the bound, before anybody looks."""

from dataclasses import replace

import pytest

from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
from schemas.decisions.replica_plans import ReplicasPlanned
from schemas.outcomes import OutcomeDetail, Result
from streams.clients.kube.api import Api
from streams.clients.kube.controllers import ScaleClient
from streams.consumers.replicas import scale_subresource
from tests.support import examples
from tests.support.consumer_scene import open_permit

(PLAN,) = (event for event in examples.EVENTS if isinstance(event, ReplicasPlanned))


@pytest.mark.parametrize(
    ("current", "replicas", "most", "reason"),
    [
        (3, -1, 10, "the plan is for -1 replicas; there may be 0 to 2147483647"),
        (3, 2**31, 2**40, "the plan is for 2147483648 replicas; there may be 0 to 2147483647"),
        (3, 1001, 5000, "the plan is for 1001 replicas, more than 100 times the 3 that there are"),
        (20, 2001, 5000, "the plan is for 2001 replicas, more than 100 times the 20 that there are"),
    ],
)
def test_an_absurd_number_is_refused(current: int, replicas: int, most: int, reason: str) -> None:
    plan = replace(PLAN, current=current, replicas=replicas, least=1, most=most)
    nobody = ScaleClient(Api(cluster_factory.connection(ClusterSettings(url="http://127.0.0.1:1"))))  # whoever asks it fails
    result = scale_subresource.scale(nobody, plan, open_permit())
    assert (result.result, result.reason, result.detail) == (Result.REFUSED, reason, OutcomeDetail.INVALID)


@pytest.mark.parametrize(("current", "replicas"), [(3, 1000), (20, 2000), (0, 5), (50, 50)])
def test_a_large_step_within_the_bounds_is_none_of_these(current: int, replicas: int) -> None:
    assert scale_subresource.objection(replace(PLAN, current=current, replicas=replicas, least=1, most=5000)) is None
