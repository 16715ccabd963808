"""Which volumes pods bring along, as scheduling goes by them: where each can be, who attaches it, and what it still waits for.

A claim that one pod uses is that pod's own: pods of a set, each with a claim, then share a shape as long as their volumes can be
in the same places. A claim that several pods use goes by its name. Which of several volumes that exist already a claim without
one will get is left open: it may be wherever one of them is. Source: the scheduler's plugins volumebinding, volumezone,
volumerestrictions and nodevolumelimits.
"""

from bisect import bisect_left, insort
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
MIGRATED = {"kubernetes.io/aws-ebs": EBS}
"""Provisioners that stand in classes of old, and the driver that does their work. Source: csi-translation-lib."""
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
class FreeVolumes:
    """The volumes of a class that nobody has, in the order of their names; where each can be is read once."""

    names: list[str] = field(default_factory=list)
    _places: dict[str, tuple[str, tuple[NodeQuery, ...]]] = field(default_factory=dict)
    _anywhere: int = 0

    def add(self, name: str, volume: VolumeObject) -> None:
        """A volume that was not there."""
        insort(self.names, name)
        self._places[name] = _driver(volume), tuple(_where(volume)[:MOST])
        self._anywhere += not self._places[name][1]

    def remove(self, name: str) -> None:
        """A volume is no longer free."""
        del self.names[bisect_left(self.names, name)]
        self._anywhere -= not self._places.pop(name)[1]

    @property
    def look(self) -> tuple[str, tuple[NodeQuery, ...]] | None:
        """Who attaches one of them, and the first places where one can be, none for everywhere; None without volumes."""
        if not self.names:
            return None
        terms = () if self._anywhere else tuple(term for name in self.names[:MOST] for term in self._places[name][1])
        return self._places[self.names[0]][0], terms[:MOST]


@dataclass(slots=True)
class VolumeIndex:
    """Claims, volumes and classes by name, and the pods that use each claim."""

    claims: dict[str, ClaimObject] = field(default_factory=dict)
    volumes: dict[str, VolumeObject] = field(default_factory=dict)
    classes: dict[str, StorageClassObject] = field(default_factory=dict)
    free: dict[str, FreeVolumes] = field(default_factory=dict)
    """Volumes that nobody has, by class."""
    users: dict[str, set[str]] = field(default_factory=dict)
    """Uids of pods, by claim."""
    _claims_of: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _bound_to: dict[str, set[str]] = field(default_factory=dict)
    """Claims by the volume that they name."""
    _unbound_of: dict[str, set[str]] = field(default_factory=dict)
    """Claims that name no volume, by class."""

    # Claims, volumes and classes

    def see(self, found: ClaimObject | VolumeObject | StorageClassObject) -> set[str]:
        """An object exists; the claims that it has a say in."""
        meta = found.metadata
        match found:
            case ClaimObject():
                key = f"{meta.namespace}/{meta.name}"
                self._forget_claim(key)
                self.claims[key] = found
                table, name = self._peers(found)
                table.setdefault(name, set()).add(key)
                return {key}
            case VolumeObject():
                return self._volume_changed(meta.name, found)
            case StorageClassObject():
                self.classes[meta.name] = found
                return set(self._unbound_of.get(meta.name, ()))

    def gone(self, kind: str, namespace: str, name: str) -> set[str]:
        """An object is gone; the claims that it had a say in. `kind` is that of the watch."""
        match kind:
            case "persistentvolumeclaims":
                self._forget_claim(f"{namespace}/{name}")
                return {f"{namespace}/{name}"}
            case "persistentvolumes":
                return self._volume_changed(name, None)
            case _:
                self.classes.pop(name, None)
                return set(self._unbound_of.get(name, ()))

    def _peers(self, claim: ClaimObject) -> tuple[dict[str, set[str]], str]:
        """Where claims stand that name the same volume, or none and the same class."""
        spec = claim.spec
        return (self._bound_to, spec.volume_name) if spec.volume_name else (self._unbound_of, spec.storage_class_name or "")

    def _forget_claim(self, key: str) -> None:
        before = self.claims.pop(key, None)
        if before is not None:
            table, name = self._peers(before)
            table[name].discard(key)
            if not table[name]:
                del table[name]

    def _volume_changed(self, name: str, found: VolumeObject | None) -> set[str]:
        """The claims that name a volume, and those that may get it, if what they may get looks different now."""
        before = self.volumes.pop(name, None)
        if found is not None:
            self.volumes[name] = found
        claims = set(self._bound_to.get(name, ()))
        classes = dict.fromkeys(one.spec.storage_class_name for one in (before, found) if one is not None and _available(one))
        looked = {one: self._free(one).look for one in classes}
        if before is not None and _available(before):
            self._free(before.spec.storage_class_name).remove(name)
        if found is not None and _available(found):
            self._free(found.spec.storage_class_name).add(name, found)
        for one in classes:
            made = self.classes.get(one)
            if made is not None and made.provisioner == NO_PROVISIONER and self._free(one).look != looked[one]:
                claims |= self._unbound_of.get(one, set())
        return claims

    def _free(self, storage_class: str) -> FreeVolumes:
        return self.free.setdefault(storage_class, FreeVolumes())

    # Pods

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

    def volumes_of(self, pod: ScheduledPodObject) -> tuple[AttachedVolume, ...]:
        """The volumes of a pod that scheduling goes by; such as can be anywhere and that nobody counts are left out.

        A claim that several of a pod's volumes name is one volume.
        """
        names = {claim: name for name, claim in sorted(claims_of(pod).items(), reverse=True)}
        found = [self._volume(name, claim) for claim, name in sorted(names.items(), key=lambda one: one[1])]
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
        return MIGRATED.get(made.provisioner, made.provisioner), terms, ""

    def _found(self, name: str, key: str) -> tuple[str, list[NodeQuery], str]:
        """A volume that somebody made and nobody has: any of them will do."""
        look = self._free(name).look
        if look is None:
            return "", [], f"persistentvolumeclaim '{key}' has no volume, and there is none of class '{name}' for it"
        return look[0], list(look[1]), ""


def _available(volume: VolumeObject) -> bool:
    return volume.status.phase == "Available"


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
