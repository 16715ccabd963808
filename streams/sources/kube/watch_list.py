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
    # Without repeats: several capabilities need the same resource, and two watches of it would be two copies.
    scoped = tuple(
        dict.fromkeys((*IN_NAMESPACES, *scaling, *((POLICIES,) if policies else ()), *((HPAS,) if replicas else ()), *updating))
    )
    commanding = (ResourceWatch(CONTROLS.name, CONTROLS),) if control else ()
    more = (*(() if webhook is None else (webhook.watch,)), *commanding)
    if nodes:
        whole = dict.fromkeys((*scoped, BUDGETS, *STORAGE, *BUFFERS, NAMESPACES, NODES))
        detailed = [DETAILED.get(resource.name, resource) for resource in whole]
        config_map = () if priorities is None else (priorities.watch,)
        return (*(ResourceWatch(resource.name, resource) for resource in detailed), *config_map, *more)
    watched = [ResourceWatch(resource.name, resource) for resource in scoped]
    if namespaces:
        watched = [ResourceWatch(resource.name, namespaced(resource, name)) for resource in scoped for name in namespaces]
    return (*watched, ResourceWatch("nodes", NODES), *more)
