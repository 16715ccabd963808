"""Which volumes pods bring along, as scheduling goes by them: where each can be, who attaches it, and what it still waits for.

A claim that one pod uses is that pod's own: pods of a set, each with a claim, then share a shape as long as their volumes can be
in the same places. A claim that several pods use goes by its name. Which of several volumes that exist already a claim without
one will get is left open: it may be wherever one of them is. Source: the scheduler's plugins volumebinding, volumezone,
volumerestrictions and nodevolumelimits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.facts.scheduled_pods import AttachedVolume, LabelDemand, NodeQuery
from streams.clients.kube.scheduling_objects import (
    ClaimObject,
    NodeSelectorTerm,
    ScheduledPodObject,
    SelectorTermExpression,
    StorageClassObject,
    VolumeObject,
)

EBS = "ebs.csi.aws.com"
"""What attaches the volumes of EC2 today, also those of the older kind that named no driver."""
LATE = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""Labels of a volume that its node must have, too; `__` stands between several values."""
ONE_POD = "ReadWriteOncePod"
MOST = 200
"""Terms that are told of one volume; one that has more is told with the first of them."""


def claims_of(pod: ScheduledPodObject) -> dict[str, str]:
    """The claims of a pod (namespace and name) by the names of its volumes."""
    meta, found = pod.metadata, {}
    for one in pod.spec.volumes or ():
        if one.persistent_volume_claim is not None:
            found[one.name] = f"{meta.namespace}/{one.persistent_volume_claim.claim_name}"
        elif one.ephemeral is not None:
            found[one.name] = f"{meta.namespace}/{meta.name}-{one.name}"
    return found


@dataclass(slots=True)
class VolumeIndex:
    """Claims, volumes and classes by name, and the pods that use each claim."""

    claims: dict[str, ClaimObject] = field(default_factory=dict)
    volumes: dict[str, VolumeObject] = field(default_factory=dict)
    classes: dict[str, StorageClassObject] = field(default_factory=dict)
    users: dict[str, set[str]] = field(default_factory=dict)
    """Uids of pods, by claim."""
    _claims_of: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def use(self, uid: str, pod: ScheduledPodObject | None) -> set[str]:
        """A pod exists, or is gone (None); the uids of other pods whose volumes look different for it."""
        before, after = self._claims_of.pop(uid, {}), {} if pod is None else claims_of(pod)
        if after:
            self._claims_of[uid] = after
        others: set[str] = set()
        for claim in {*before.values()} - {*after.values()}:
            left = self.users[claim]
            left.discard(uid)
            others |= left if len(left) == 1 else set()
            if not left:
                del self.users[claim]
        for claim in {*after.values()} - {*before.values()}:
            there = self.users.setdefault(claim, set())
            others |= there if len(there) == 1 else set()
            there.add(uid)
        return others - {uid}

    def users_of(self, claims: Iterable[str]) -> set[str]:
        """The uids of all pods that use one of these claims."""
        return {uid for claim in claims for uid in self.users.get(claim, ())}

    def claims_with(self, *, volume: str = "", storage_class: str = "") -> list[str]:
        """The claims that a volume or a class has a say in."""
        return [
            name
            for name, claim in self.claims.items()
            if (volume and claim.spec.volume_name == volume)
            or (storage_class and not claim.spec.volume_name and claim.spec.storage_class_name == storage_class)
        ]

    def volumes_of(self, pod: ScheduledPodObject) -> tuple[AttachedVolume, ...]:
        """The volumes of a pod that scheduling goes by; such as can be anywhere and that nobody counts are left out."""
        found = [self._volume(name, claim) for name, claim in sorted(claims_of(pod).items())]
        return tuple(one for one in found if one.missing or one.terms or one.exclusive or one.driver)

    def _volume(self, name: str, key: str) -> AttachedVolume:
        own = len(self.users.get(key, ())) < 2  # noqa: PLR2004  # the pod itself
        handle = name if own else key
        claim = self.claims.get(key)
        if claim is None:
            return AttachedVolume("", handle, own=own, missing=f"persistentvolumeclaim '{key}' not found")
        exclusive = not own and ONE_POD in (claim.spec.access_modes or ())
        driver, terms, missing = self._bound(claim) if claim.spec.volume_name else self._unbound(claim)
        return AttachedVolume(driver, handle, tuple(terms[:MOST]), exclusive, own, missing)

    def _bound(self, claim: ClaimObject) -> tuple[str, list[NodeQuery], str]:
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is None:
            return "", [], f"persistentvolume '{claim.spec.volume_name}' not found"
        return _driver(volume), _where(volume), ""

    def _unbound(self, claim: ClaimObject) -> tuple[str, list[NodeQuery], str]:
        """A claim that has no volume yet: it will be where its pod goes, as far as its class lets it."""
        name, key = claim.spec.storage_class_name or "", f"{claim.metadata.namespace}/{claim.metadata.name}"
        made = self.classes.get(name)
        if made is None:
            return "", [], f"storageclass '{name}' of persistentvolumeclaim '{key}' not found"
        if made.volume_binding_mode != LATE:
            return "", [], f"persistentvolumeclaim '{key}' is not bound yet, and its class binds at once"
        if made.provisioner == NO_PROVISIONER:
            return self._found(name, key)
        terms = [NodeQuery(_demands(one.match_label_expressions, "In")) for one in made.allowed_topologies or ()]
        return made.provisioner, terms, ""

    def _found(self, name: str, key: str) -> tuple[str, list[NodeQuery], str]:
        """A volume that somebody made and nobody has: any of them will do."""
        free = [
            self.volumes[volume]
            for volume in sorted(self.volumes)
            if self.volumes[volume].spec.storage_class_name == name and self.volumes[volume].status.phase == "Available"
        ]
        if not free:
            return "", [], f"persistentvolumeclaim '{key}' has no volume, and there is none of class '{name}' for it"
        places = [_where(volume) for volume in free]
        return _driver(free[0]), [term for terms in places for term in terms] if all(places) else [], ""


def _driver(volume: VolumeObject) -> str:
    """Who attaches a volume; empty if nobody does."""
    if volume.spec.csi is not None:
        return volume.spec.csi.driver
    return EBS if volume.spec.aws_elastic_block_store is not None else ""


def _where(volume: VolumeObject) -> list[NodeQuery]:
    """On which nodes a volume can be: its node affinity, and each of its labels of a zone; empty for everywhere."""
    labels = volume.metadata.labels or {}
    zones = tuple(LabelDemand(key, "In", tuple(sorted(labels[key].split("__")))) for key in ZONES if labels.get(key))
    affinity = volume.spec.node_affinity
    required = None if affinity is None or affinity.required is None else affinity.required.node_selector_terms
    if required is None:
        return [NodeQuery(zones)] if zones else []
    return [_term(one, zones) for one in required]


def _term(one: NodeSelectorTerm, zones: tuple[LabelDemand, ...]) -> NodeQuery:
    return NodeQuery((*_demands(one.match_expressions), *zones), _demands(one.match_fields))


def _demands(expressions: Iterable[SelectorTermExpression] | None, operator: str = "") -> tuple[LabelDemand, ...]:
    return tuple(LabelDemand(one.key, operator or one.operator, tuple(one.values or ())) for one in expressions or ())
