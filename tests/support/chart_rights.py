"""The chart's rights: on Kafka by docs/security.md, as it makes its users by them, and of the kube source by what that watches.

`python -m tests.support.chart_rights` writes both. `{prefix}` and `{name}` are `topics.prefix` and `worker.name`.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from streams.sources.kube.watch.watched_resources import WebhookLease
from streams.sources.kube.watch_threads import watches
from tests.support.commands import ROOT
from tests.support.documented_rights import documented_rights

FILE = ROOT / "deploy/helm/ullage/files/rights.json"
KUBE = ROOT / "deploy/helm/ullage/rbac/source-kube.yaml"
_WEBHOOK = WebhookLease("ullage", "ullage-webhook")
_OPTIONAL = {"cluster.nodes": {"nodes": True}, "cluster.replicas": {"replicas": True}}
_BEFORE, _AFTER = "rules:\n", '  - apiGroups: ["ullage.internal"]'


def text() -> str:
    """A JSON object: for each user of the table a list of rights, as `ullage topics users` reads them."""
    users = {}
    for user, grants in documented_rights("{prefix}", "{name}").items():
        named: dict[tuple[str, str, bool], list[str]] = defaultdict(list)
        for grant in grants:
            named[grant.resource, grant.operation, grant.name.endswith("*")].append(grant.name.rstrip("*"))
        users[user] = [
            {"kind": kind, "operations": [operation], "names": names, "prefix": prefix}
            for (kind, operation, prefix), names in named.items()
        ]
    return "{\n" + ",\n".join(f" {json.dumps(user)}: {json.dumps(rights)}" for user, rights in users.items()) + "\n}\n"


def watched(**capabilities: bool) -> Mapping[str, Sequence[str]]:
    """The resources in all namespaces that the kube source watches beside a webhook, by API group."""
    groups: dict[str, set[str]] = defaultdict(set)
    for watch in watches(webhook=_WEBHOOK, **capabilities):
        if watch.kind != "leases":  # these in one namespace
            groups[watch.resource.group].add(watch.resource.plural)
    return {group: sorted(plurals) for group, plurals in sorted(groups.items())}


def with_watched(role: str) -> str:
    """The kube source's role, with the rules for all that it watches before those that are written by hand."""
    always = watched()
    rules = [_rule(group, plurals) for group, plurals in always.items()]
    for setting, capability in _OPTIONAL.items():
        for group, plurals in watched(**capability).items():
            if more := [plural for plural in plurals if plural not in always.get(group, ())]:
                rules.append(_rule(group, more, f" # only with `{setting}`"))
    start, end = role.index(_BEFORE) + len(_BEFORE), role.index(_AFTER)
    return role[:start] + "".join(rules) + role[end:]


def _rule(group: str, plurals: Sequence[str], note: str = "") -> str:
    return f'  - apiGroups: ["{group}"]{note}\n    resources: {json.dumps(plurals)}\n    verbs: ["list", "watch"]\n'


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    KUBE.write_text(with_watched(KUBE.read_text(encoding="utf-8")), encoding="utf-8")
