"""The checks of `ullage doctor` on the cluster: does it answer, what may we do, does it have what the components need?

Nothing is changed: a SelfSubjectAccessReview only asks. A cluster that cannot be reached ends these checks.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from agents.processes import component_rights
from agents.processes.component_rights import KEPT, NODES, REPLICAS, RIGHTS, WATCHING
from agents.settings import cluster_factory, log_factory
from agents.settings.all_settings import Settings
from schemas.policies.control import Mode
from schemas.units import Seconds
from streams.clients.kube.api import Api, ApiRequest, ApiResponse
from streams.errors import BadInput, EdgeError, GiveUp, UllageError
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog
from streams.serving import certificate_making


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """The outcome of one check. `fix` says what to do, and is empty when there is nothing to do."""

    level: Literal["ok", "warn", "fail"]
    name: str
    finding: str
    fix: str = ""


_TIMEOUT = Seconds(3.0)
_EHPAS = (
    ("autoscaling.crane.io", "effectivehorizontalpodautoscalers"),
    ("autoscaling.crane.io", "substitutes"),
    ("prediction.crane.io", "timeseriespredictions"),
)
_SKEW = 30.0
"""Seconds that the server's clock may differ from ours."""
_OK, _UNKNOWN, _FORBIDDEN, _NOT_FOUND = 200, 401, (401, 403), 404
_DENIED = "give its ServiceAccount the role of deploy/helm/ullage/rbac (the Helm chart does), or leave the component out"


def all_checks(settings: Settings) -> Iterator[DoctorCheck]:
    """The checks in order, each run on demand."""
    try:
        api = Api(cluster_factory.connection(settings.cluster), timeout=_TIMEOUT)
    except BadInput as error:
        yield DoctorCheck("warn", "cluster", str(error), "only sources and consumers need it")
        return
    where = cluster_factory.address(settings.cluster)
    try:
        answer = _ask(api, "/version")
        yield from _server(answer, where)
        # without credentials every further question would have the same answer
        if answer.code == _UNKNOWN:
            return
        for component in components(settings):
            yield _rights(api, component, settings)
        yield from _served(api, settings)
        yield _webhook(api, settings)
        # also where the metrics API is turned off: an APIService that was left behind stops deletions of namespaces
        yield from _external_metrics(api, settings)
    except EdgeError as error:
        yield DoctorCheck("fail", "cluster", f"{where} does not answer: {error}", "is the kubeconfig right, and the context?")
        return
    finally:
        api.close()
    yield from name_in_log(settings)


def components(settings: Settings) -> list[str]:
    """The components whose rights are looked at: those of what these settings turn on."""
    off = (() if settings.cluster.nodes else NODES) + (() if settings.cluster.replicas else REPLICAS)
    return [component for component in RIGHTS if component not in off]


_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def _ask(api: Api, path: str, body: Mapping[str, object] | None = None) -> ApiResponse:
    method = "GET" if body is None else "POST"
    return api.send(ApiRequest(path, doing="asking", to=path, method=method, body=body))


def _server(answer: ApiResponse, where: str) -> Iterator[DoctorCheck]:
    if answer.code in _FORBIDDEN:
        yield DoctorCheck("fail", "cluster", f"{where} does not know us (HTTP {answer.code})", "the credentials may have expired")
    elif answer.code != _OK:
        yield DoctorCheck("fail", "cluster", f"{where} answers HTTP {answer.code}", "is it an API server?")
    else:
        yield DoctorCheck("ok", "cluster", f"{where} answers")
    # also of a refusal, whose answer has a date as well
    if answer.date is not None:
        yield clock_skew(answer.date, datetime.now(UTC))  # noqa: TID251  # this machine's clock is what is checked


def clock_skew(date: str, now: datetime) -> DoctorCheck:
    """Whether the server's clock, by its `Date` header, agrees with ours, because event time is real time."""
    try:
        off = (parsedate_to_datetime(date) - now).total_seconds()
    except (ValueError, TypeError):
        return DoctorCheck("warn", "clock", f"the server's Date '{date}' is no time")
    if abs(off) <= _SKEW:
        return DoctorCheck("ok", "clock", f"the server's clock and this machine's agree within {_SKEW:g} s")
    which = "ahead of" if off > 0 else "behind"
    return DoctorCheck("fail", "clock", f"the server's clock is {abs(off):.0f} s {which} this machine's", "let both follow NTP")


def _rights(api: Api, component: str, settings: Settings) -> DoctorCheck:
    pods_namespace = cluster_factory.lease_namespace(settings.cluster)
    try:
        missing = component_rights.missing(api, RIGHTS[component], namespace=settings.webhook.namespace)
        # a component that keeps a Lease needs rights in the namespace of its own pods, too
        if not missing and pods_namespace is not None:
            missing = component_rights.missing(api, KEPT[component], namespace=pods_namespace)
    except GiveUp as error:
        return DoctorCheck("warn", "rights", f"whether this account may do what {component} needs is not said: {error}", _DENIED)
    if not missing:
        return DoctorCheck("ok", "rights", f"this account may do what {component} needs")
    finding = f"this account may not do what {component} needs: {component_rights.listed(missing)}"
    return DoctorCheck("fail" if component in WATCHING else "warn", "rights", finding, _DENIED)


def _served(api: Api, settings: Settings) -> Iterator[DoctorCheck]:
    """Check APIs that are installed separately."""
    vpas = _resources(api, "/apis/autoscaling.k8s.io/v1")
    if "verticalpodautoscalers" in vpas:
        yield DoctorCheck("ok", "crds", "VerticalPodAutoscaler objects are served")
    else:
        fix = "install VPA's CRDs (they need no VPA), or use `ullage policy set`"
        # an old VPA serves v1beta2 alone
        versions = (str(served.get("version")) for served in _object(api, "/apis/autoscaling.k8s.io").get("versions") or ())
        others = ", ".join(version for version in versions if version != "v1")
        finding = "the cluster has no VerticalPodAutoscaler objects (autoscaling.k8s.io/v1)"
        yield DoctorCheck("warn", "crds", f"{finding}, only {others} of that group" if others else finding, fix)
    for group, plural in _EHPAS if settings.cluster.replicas else ():
        if plural not in _resources(api, f"/apis/{group}/v1alpha1"):
            yield DoctorCheck("fail", "crds", f"the cluster has no {plural} ({group}/v1alpha1)", "kubectl apply -f deploy/crds")
    asked = settings.usage.reads == "metrics-api"
    yield metrics_api(_ask(api, "/apis/metrics.k8s.io/v1beta1/pods?limit=1").code, asked=asked)
    if settings.usage.reads == "prometheus" or settings.cluster.replicas:
        yield prometheus(settings)
    if settings.usage.reads == "remote-write":
        yield from received(settings)


def _resources(api: Api, path: str) -> set[str]:
    """The plurals that an API group serves in a version; none where it is not there."""
    return {str(resource.get("name")) for resource in _object(api, path).get("resources") or ()}


def _body(answer: ApiResponse) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(answer.body)
    return body


def _object(api: Api, path: str) -> dict[str, Any]:
    """What is below a path; empty where nothing is."""
    answer = _ask(api, path)
    return _body(answer) if answer.code == _OK else {}


def metrics_api(code: int, *, asked: bool) -> DoctorCheck:
    """Whether the metrics API answers, by the HTTP code of a look at it. `asked`: usage is read there."""
    if code == _OK:
        return DoctorCheck("ok", "metrics", "the metrics API answers")
    if code in _FORBIDDEN:
        return DoctorCheck("warn", "metrics", "the metrics API is there, and this account may not ask it", _DENIED)
    finding = f"the metrics API (metrics.k8s.io) answers HTTP {code}"
    if asked:
        return DoctorCheck("fail", "metrics", finding, "install metrics-server, or set usage.reads=prometheus and prometheus.url")
    only = "the resizer asks it what a pod uses before it lowers a memory limit, and does without"
    return DoctorCheck("ok", "metrics", f"{finding}; usage comes from elsewhere, and {only}")


def prometheus(settings: Settings) -> DoctorCheck:
    """Whether Prometheus answers, and has usage by the names that the settings give."""
    from agents.processes import source_usage
    from streams.clients.prometheus import AnswerLimits

    try:
        server = source_usage.prometheus(settings.prometheus, AnswerLimits(_TIMEOUT))
        counts = server.query(source_usage.metric_names(settings).count(), datetime.now(UTC))  # noqa: TID251  # as of now
    except BadInput as error:
        return DoctorCheck("fail", "usage", str(error), "look at prometheus.*")
    except EdgeError as error:
        # no failure: the doctor often runs on a laptop, from where an address within the cluster is not reached
        fix = "is prometheus.url right? An address of the cluster's own answers only there: run this in the pod of source usage"
        return DoctorCheck("warn", "usage", f"Prometheus does not answer: {error}", fix)
    count = next((int(float(series.value[1])) for series in counts if series.value is not None), 0)
    # where only loads are read there, usage of containers may be missing
    if count or settings.usage.reads != "prometheus":
        return DoctorCheck("ok", "usage", f"Prometheus at '{server.url}' answers, and has usage of {count} containers")
    finding = f"Prometheus at '{server.url}' has no usage of any container"
    return DoctorCheck("fail", "usage", finding, source_usage.when_empty(settings))


def received(settings: Settings) -> Iterator[DoctorCheck]:
    """Whether senders bring usage, by what the source last reported to the log."""
    from agents.processes import source_usage

    try:
        with log_factory.context_to_read(settings) as (context, _):
            reports = source_reports.newest_reports(context)
    except UllageError:
        return  # the lines about the log report that
    report = reports.get((settings.cluster.name, "usage"))
    if report is None:
        yield DoctorCheck("warn", "usage", "no source takes in what senders bring", "start `ullage source remote-write`")
    elif not report.sees:
        fix = f"let them send to port {settings.receiver.port} of it: docs/usage.md"
        yield DoctorCheck(
            "fail", "usage", f"no sender brought a sample of a container, as of {report.at:%Y-%m-%d %H:%M:%S} UTC", fix
        )
    elif report.lacks:
        yield DoctorCheck("warn", "usage", "; ".join(report.lacks), source_usage.when_empty(settings))
    else:
        yield DoctorCheck("ok", "usage", f"senders bring usage, as of {report.at:%Y-%m-%d %H:%M:%S} UTC")


def _webhook(api: Api, settings: Settings) -> DoctorCheck:
    """Whether the webhook is registered, with authorities that hold, and at work."""
    name, applied = settings.webhook.configuration, _applied(settings)
    answer = _ask(api, f"{_WEBHOOKS}/{name}")
    check = webhook(answer.code, name, applied=applied)
    if answer.code != _OK:
        return check
    configuration = _body(answer)
    ended = ended_authorities(configuration, datetime.now(UTC))  # noqa: TID251  # as the API server does
    if ended is not None:
        return ended
    for namespace, service in served_by(configuration):
        if _ask(api, f"/api/v1/namespaces/{namespace}/services/{service}").code == _NOT_FOUND:
            finding = f"'{name}' leads to Service '{namespace}/{service}', which is not there, so nobody is asked"
            return DoctorCheck(
                "fail", "webhook", finding, f"kubectl delete mutatingwebhookconfiguration {name}, or make the Service"
            )
    return _webhook_at_work(settings, check) if applied else check


def _external_metrics(api: Api, settings: Settings) -> Iterator[DoctorCheck]:
    """Whether the API server reaches the metrics API."""
    service = _object(api, "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io")

    if service:
        ours = settings.metrics_api.namespace, settings.metrics_api.service
        check = api_service(service, ours, wanted=settings.cluster.replicas)
        if check is not None:
            yield check


def _webhook_at_work(settings: Settings, registered: DoctorCheck) -> DoctorCheck:
    """Whether a registered webhook is at work."""
    from agents.processes.consumer import eviction_objection

    try:
        # its Lease shows it: after a crash the registration stays, and pods start as they are
        objection = eviction_objection(settings)()
    except EdgeError:  # this account may not look at the Lease
        return registered
    if objection is None:
        return registered
    return DoctorCheck("warn", "webhook", f"{registered.finding}, but {objection}", "start `ullage consumer webhook`")


def webhook(code: int, name: str, *, applied: bool) -> DoctorCheck:
    """Whether the webhook's configuration exists, by a request's HTTP code. `applied`: the cluster is in mode apply."""
    if code == _OK:
        return DoctorCheck("ok", "webhook", f"'{name}' is registered")
    if code in _FORBIDDEN:
        return DoctorCheck("ok", "webhook", f"this account may not look whether '{name}' is registered")
    if applied:
        return DoctorCheck(
            "warn", "webhook", f"'{name}' is not registered, so nobody is evicted", "start `ullage consumer webhook`"
        )
    return DoctorCheck("ok", "webhook", f"'{name}' is not registered, so nobody is evicted; mode apply needs it")


def _applied(settings: Settings) -> bool:
    """Whether the cluster is in mode apply by the log; False if the log cannot be read, which other lines report."""
    if settings.log.kind == "memory":
        return False
    try:
        with log_factory.context_to_read(settings) as (context, _):
            control = OperatorLog(context).control(settings.cluster.name)
    except UllageError:
        return False
    return control is not None and control.mode is Mode.APPLY


def name_in_log(settings: Settings) -> Iterator[DoctorCheck]:
    """Whether a source has named this cluster in the log."""
    if settings.log.kind == "memory":
        return
    name = settings.cluster.name
    try:
        with log_factory.context_to_read(settings) as (context, _):
            named = source_reports.clusters(context)
    except UllageError:
        return  # the lines about the log report that
    if name in named:
        yield DoctorCheck("ok", "name", f"sources name cluster '{name}' in the log")
    elif named:
        there = ", ".join(f"'{cluster}'" for cluster in sorted(named))
        yield DoctorCheck("fail", "name", f"no source names cluster '{name}' in the log, but {there}", "set cluster.name")
    else:
        yield DoctorCheck("warn", "name", "no source has named a cluster in the log", "start `ullage source kube`")


# The checks of `ullage doctor` on what was registered with the API server for the webhook and the metrics API.
#
# They look at answers that were given, and ask nothing themselves.


_RESTART = "start `ullage consumer webhook`, which renews them"


def ended_authorities(configuration: Mapping[str, Any], now: datetime) -> DoctorCheck | None:
    """A warning if the API server trusts nobody any more by a MutatingWebhookConfiguration; None if it does."""
    for webhook in configuration.get("webhooks") or ():
        bundle = (webhook.get("clientConfig") or {}).get("caBundle")
        if not bundle:  # the API server trusts whom its own system trusts
            continue
        about = f"webhook '{webhook.get('name', '')}' of '{configuration['metadata']['name']}'"
        try:
            still_good = certificate_making.joined([base64.b64decode(bundle)], now)
        except (BadInput, binascii.Error):
            return DoctorCheck("fail", "webhook", f"the authorities of {about} cannot be read, so nobody is asked", _RESTART)
        if not still_good:
            return DoctorCheck("fail", "webhook", f"all authorities of {about} have expired, so nobody is asked", _RESTART)
    return None


def served_by(configuration: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The Services, by namespace and name, that a MutatingWebhookConfiguration leads to."""
    services = [(webhook.get("clientConfig") or {}).get("service") for webhook in configuration.get("webhooks") or ()]
    yield from sorted({(service.get("namespace", ""), service.get("name", "")) for service in services if service})


def api_service(registration: Mapping[str, Any], ours: tuple[str, str], *, wanted: bool) -> DoctorCheck | None:
    """What is wrong with the APIService of external metrics; None where nothing is. `ours`: namespace and name of our Service."""
    name, spec = registration["metadata"]["name"], registration.get("spec") or {}
    service = spec.get("service") or {}
    where = service.get("namespace", ""), service.get("name", "")
    if where != ours:
        if not wanted:
            return None
        finding = f"'{name}' is served by Service '{'/'.join(where)}', so no HPA sees our forecasts; a group has one server"
        return DoctorCheck("warn", "apis", finding, "scale directly (docs/replicas.md), or take the other adapter away")
    bad = [c for c in (registration.get("status") or {}).get("conditions") or () if c.get("type") == "Available"]
    if not bad or bad[0].get("status") == "True":
        return DoctorCheck("ok", "apis", f"'{name}' is served by us") if wanted else None
    why = f"{bad[0].get('reason', '')}: {bad[0].get('message', '')}"
    finding = f"nobody serves '{name}' ({why}); while that is so, no namespace of the cluster can be deleted"
    fix = "start `ullage consumer metrics-api`" if wanted else f"kubectl delete apiservice {name}"
    return DoctorCheck("fail", "apis", finding, f"{fix}; is its Service reached from the API server?" if wanted else fix)
