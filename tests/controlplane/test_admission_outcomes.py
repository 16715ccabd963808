"""What the webhook says of its patches on a real API server, with the real kube source: done is only what was seen there.

The API server's own list of pods stands against the outcomes: each 'done' has a pod with its uid and the amounts, and each pod
with our amounts has a 'done'. Where the API server refuses what the webhook made, the rollout makes its pods nevertheless.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from schemas.outcomes import ActionFinished, OutcomeDetail, Result
from tests.controlplane import audit_judge
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.test_successors import no_new_pods
from tests.controlplane.webhook_replicas import Hooks
from tests.controlplane.world import World

OWNERS, GIVEN = {"cpu": "100m", "memory": "64Mi"}, {"cpu": "250m", "memory": "200Mi"}
WHILE_IT_TRIES = 300.0
"""Seconds: a minute until a pod counts as lost, one until the source reports again, and the ReplicaSet's pause between tries."""


@pytest.fixture
def hooks(plane: Plane, world: World, tmp_path: Path) -> Iterator[Hooks]:
    """The webhook and the kube source as processes, a clock, mode apply, and a recommendation for a Deployment `web`."""
    home = World(plane.ask)
    made = Hooks(plane, home, world, tmp_path)
    try:
        with made.ticking(), made.watching():
            made.control()
            made.vpa()
            made.recommend()
            made.start()  # ready, it has read all that
            yield made
    finally:
        made.close()
        home.close()


def requests_of(pod: Any) -> Any:
    return pod["spec"]["containers"][0]["resources"]["requests"]


def of(hooks: Hooks, result: Result) -> list[ActionFinished]:
    return [outcome for outcome in hooks.outcomes() if outcome.result is result]


def agrees(hooks: Hooks, ever: dict[str, Any]) -> bool:
    """Whether 'done' and the pods that were ever there with our amounts are the same, by uid."""
    ever.update({pod["metadata"]["uid"]: pod for pod in hooks.world.pods("web")})
    done = of(hooks, Result.DONE)
    assert all(outcome.subject.uid in ever for outcome in done), "a 'done' of what never was"
    given = {uid for uid, pod in ever.items() if requests_of(pod) != OWNERS}
    return {outcome.subject.uid for outcome in done} == given and len(done) == len(given)


class Rollouts:
    """Rolls out the Deployment `web` again."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks, self._versions = hooks, count(2)

    def again(self) -> None:
        """Its pods are made anew."""
        template = {"metadata": {"annotations": {"v": str(next(self._versions))}}}
        self._hooks.world.ask.patch(self._hooks.world.path("deployments", "web"), {"spec": {"template": template}})


def test_each_done_has_its_pod_and_each_pod_its_done(hooks: Hooks) -> None:
    ever: dict[str, Any] = {}
    rollouts = Rollouts(hooks)

    def all_given() -> bool:
        pods = hooks.world.pods("web")
        if len(pods) != 3 or not agrees(hooks, ever):
            return False
        # On a machine at its limits the API server does not wait for the webhook: such pods come as they are.
        as_they_are = any(requests_of(pod) == OWNERS for pod in pods)
        if as_they_are and all(pod["status"]["phase"] == "Running" for pod in pods):
            rollouts.again()
        return not as_they_are

    hooks.world.deployment("web", replicas=3)
    wait_for(all_given, timeout=60.0, what="three pods are done")
    rollouts.again()
    before = len(of(hooks, Result.DONE))
    wait_for(lambda: len(of(hooks, Result.DONE)) > before and all_given(), timeout=90.0, what="three more are done")
    audit, namespace, done = hooks.plane.at.audit, hooks.world.namespace, of(hooks, Result.DONE)
    assert audit_judge.faults(audit, namespace, done, ()) == []
    # More than one, for a pod that was rolled out again may have gone before anybody saw it, changed and without its 'done'.
    made_up = [replace(done[0], id=f"made up {number}") for number in range(100)]
    [fault] = audit_judge.faults(audit, namespace, [*done, *made_up], ())
    assert fault.startswith(f"{len(done) + 100} admissions are done, and the webhook changed ")
    [container] = of(hooks, Result.DONE)[-1].admitted.containers  # type: ignore[union-attr]  # an admission has amounts
    assert (container.requests_before.cpu, container.requests.cpu) == (0.1, 0.25)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("refuses", ["quota", "pod-level"])
def test_a_rollout_makes_its_pods_even_if_the_api_server_refuses_the_patched_ones(hooks: Hooks, refuses: str) -> None:
    """Issue 27: 13 and 25 outcomes said done for pods that never existed, and no pod came."""
    spec = None
    if refuses == "quota":
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"requests.cpu": "240m"}},
        }
        hooks.world.ask.post(hooks.world.path("resourcequotas"), quota)
    else:
        both = {"cpu": "200m", "memory": "128Mi"}
        spec = {"resources": {"requests": both, "limits": both}}
    ever: dict[str, Any] = {}
    hooks.world.deployment("web", replicas=2, spec=spec, wait=False)

    def ready() -> bool:
        return (
            agrees(hooks, ever)
            and hooks.world.ask.get(hooks.world.path("deployments", "web"))["status"].get("readyReplicas") == 2
        )

    wait_for(ready, timeout=WHILE_IT_TRIES, what="the Deployment has its pods")
    # the webhook knows what would be refused, and gives the pods less
    assert all(requests_of(pod) != GIVEN for pod in hooks.world.pods("web"))
    assert of(hooks, Result.LOST) == []


@pytest.mark.timeout(900)
def test_a_rollout_makes_its_pods_though_a_policy_of_others_refuses_what_the_webhook_makes(hooks: Hooks) -> None:
    """What nobody could know before: the webhook stops patching the workload within a minute or so of tries, and says it."""
    ever: dict[str, Any] = {}
    rollouts = Rollouts(hooks)

    def left_alone() -> bool:
        if hooks.metric("ullage_webhook_workloads_left_alone") == 1:
            return True
        # On a machine at its limits the API server does not wait for the webhook: pods come as they are, and nothing is tried.
        if hooks.world.ask.get(hooks.world.path("deployments", "web"))["status"].get("updatedReplicas") == 2:
            rollouts.again()
        return False

    with no_new_pods(hooks.world, f"object.spec.containers.all(c, c.resources.requests['cpu'] != '{GIVEN['cpu']}')"):
        hooks.world.deployment("web", replicas=2, wait=False)
        wait_for(left_alone, timeout=120.0, what="it stops patching")
        # The metric is counted as the webhook decides, and the outcome is in the log a moment later.
        not_seen = lambda: OutcomeDetail.NOT_SEEN in {lost.detail for lost in of(hooks, Result.LOST)}  # noqa: E731  # one line
        wait_for(not_seen, timeout=30.0, what="the log says which pods never came")
        assert agrees(hooks, ever)
        assert "not patched" in hooks.ullage("status")
        # the ReplicaSet waits for longer after each refusal; a rollout does not wait for it
        rollouts.again()
        hooks.world.running("web", 2)
        assert agrees(hooks, ever)
        assert of(hooks, Result.DONE) == []
