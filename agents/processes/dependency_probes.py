"""Checks of what some processes depend on besides the log: the API server, AWS, and rights in the cluster."""

from collections.abc import Callable, Iterator
from contextlib import closing

from agents.processes import component_rights
from agents.settings import cluster_factory
from agents.settings.all_settings import Settings
from schemas.units import Seconds
from streams.clients.kube import refusals
from streams.clients.kube.api import Api, ApiRequest
from streams.errors import EdgeError, GiveUp, TryAgain

API_SERVER, AWS, RIGHTS_IN_CLUSTER, WEBHOOK = "the API server", "AWS", "a right in the cluster", "the webhook"
_PATIENCE = Seconds(3.0)
"""Seconds to wait for a sign of life."""
_UNAUTHORIZED, _SERVER_ERROR = 401, 500


def api_server(settings: Settings) -> Callable[[], None]:
    """Whether the cluster's API server answers and accepts our credentials, but not which rights we have."""
    api, where = Api(cluster_factory.connection(settings.cluster), timeout=_PATIENCE), cluster_factory.address(settings.cluster)
    request = ApiRequest("/version", "asking for a sign of life", where)

    def look() -> None:
        response = api.send(request)
        # 403 is an answer too: rights are looked at elsewhere
        if response.code == _UNAUTHORIZED or response.code >= _SERVER_ERROR:
            answer = f"{response.code} {response.body[:200].decode(errors='replace')}"
            raise TryAgain(doing=request.doing, to=request.to, answer=answer, after=refusals.RETRY_AFTER)

    return look


def aws(settings: Settings) -> Callable[[], None]:
    """Whether AWS answers us and allows our read-only calls. Raises BadInput without the AWS SDK."""
    from streams.clients.aws.aws_client import AwsOptions, connect

    return connect(AwsOptions(settings.aws.region, settings.aws.endpoint, _PATIENCE)).look


def unseen(settings: Settings) -> Iterator[str]:
    """A sentence for each source that may not read all that it watches."""
    if settings.cluster.namespaces:  # rights in single namespaces are not looked at
        return
    with closing(Api(cluster_factory.connection(settings.cluster), timeout=_PATIENCE)) as api:
        for component in component_rights.WATCHING:
            try:
                missing = component_rights.missing(api, component_rights.RIGHTS[component], namespace=settings.webhook.namespace)
            except EdgeError as error:
                # said as well, for silence would look like a yes
                yield f"what {component} may see is not known: {error}"
                continue
            if missing:
                yield f"{component} cannot see everything: this account may not {component_rights.listed(missing)}"


def rights(settings: Settings, component: str) -> Callable[[], None]:
    """Whether the cluster grants all rights of a component (as `component_rights` names it) to our account."""
    api, where = Api(cluster_factory.connection(settings.cluster), timeout=_PATIENCE), cluster_factory.address(settings.cluster)

    def look() -> None:
        rights = component_rights.RIGHTS[component]
        if missing := component_rights.missing(api, rights, namespace=settings.webhook.namespace):
            doing = f"asking whether we may {component_rights.listed(missing)}"
            raise GiveUp(doing=doing, to=where, answer="no: apply deploy/helm/ullage/rbac or the chart")

    return look
