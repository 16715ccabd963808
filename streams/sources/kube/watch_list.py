"""Which resources the kube source watches: in the whole cluster, or in some namespaces only."""

from collections.abc import Sequence

from streams.sources.kube.publish.update_resources import UPDATE_RESOURCES
from streams.sources.kube.watch.watched_resources import (
    BUDGETS,
    BUFFERS,
    CONTROLS,
    DETAILED,
    EHPAS,
    FAILED_CREATIONS,
    HPAS,
    IN_NAMESPACES,
    NAMESPACES,
    NODES,
    POLICIES,
    STORAGE,
    TSPS,
    PrioritiesMap,
    ResourceWatch,
    WebhookLease,
    namespaced,
)


def watches(  # noqa: PLR0913  # one flag for each capability, all by keyword
    namespaces: Sequence[str] = (),
    *,
    nodes: bool = False,
    replicas: bool = False,
    webhook: WebhookLease | None = None,
    priorities: PrioritiesMap | None = None,
    control: bool = False,
    policies: bool = False,
) -> tuple[ResourceWatch, ...]:
    """Every watch, controllers first. No namespaces means all of them.

    With `nodes`, all that node scaling needs is read, and `priorities` where they are named; with `replicas`, autoscalers; with
    `webhook`, further constraints on updates of pods; with `control`, the object that commands the cluster; with
    `policies`, VerticalPolicies.
    """
    scaling = (EHPAS, TSPS) if replicas else ()
    updating = () if webhook is None else (*(row.resource for row in UPDATE_RESOURCES), FAILED_CREATIONS)
    scoped = tuple(
        dict.fromkeys((*IN_NAMESPACES, *scaling, *((POLICIES,) if policies else ()), *((HPAS,) if replicas else ()), *updating))
    )
    commanding = (ResourceWatch(CONTROLS.name, CONTROLS),) if control else ()
    more = (*(() if webhook is None else (webhook.watch,)), *commanding)
    if nodes:
        seen = [
            DETAILED.get(each.name, each) for each in dict.fromkeys((*scoped, BUDGETS, *STORAGE, *BUFFERS, NAMESPACES, NODES))
        ]
        asked = () if priorities is None else (priorities.watch,)
        return (*(ResourceWatch(each.name, each) for each in seen), *asked, *more)
    found = [ResourceWatch(each.name, each) for each in scoped]
    if namespaces:
        found = [ResourceWatch(each.name, namespaced(each, namespace)) for each in scoped for namespace in namespaces]
    return (*found, ResourceWatch("nodes", NODES), *more)
