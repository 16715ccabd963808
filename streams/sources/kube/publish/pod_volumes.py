"""The volumes of pods, as scheduling needs them: where each can be, which driver attaches it, and what it still waits for.

Source: the scheduler's plugins volumebinding, volumezone, volumerestrictions and nodevolumelimits.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from schemas.facts.scheduled_pods import AttachedVolume, LabelDemand, NodeQuery
from schemas.well_known_labels import HOSTNAME
from streams.clients.kube.scheduling_objects import (
    ClaimObject,
    ScheduledPodObject,
    SelectorTermExpression,
    StorageClassObject,
    VolumeObject,
)

EBS = "ebs.csi.aws.com"  # attaches the volumes of EC2, also those of the older kind that named no driver
MIGRATED = {"kubernetes.io/aws-ebs": EBS}
"""Provisioners that stand in classes of old, and the driver that does their work. Source: csi-translation-lib."""
LATE, LOST = "WaitForFirstConsumer", "Lost"
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
"""Terms that are published of one volume; with more of them its pods wait, and their fact says why."""
MOST_PLACES = 1000
"""Different places at which the free volumes of a class can be; with more, pods that may get any of them wait."""
MOST_VALUES = 500
"""Values of one demand on a label."""


def claims_of(pod: ScheduledPodObject) -> dict[str, str]:
    """The claims of a pod (namespace and name) by the names of its volumes."""
    meta, claims = pod.metadata, {}
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            claims[volume.name] = f"{meta.namespace}/{volume.persistent_volume_claim.claim_name}"
        elif volume.ephemeral is not None:
            # The controller's own rule for such claims (VolumeClaimName in k8s.io/component-helpers).
            claims[volume.name] = f"{meta.namespace}/{meta.name}-{volume.name}"
    return claims


_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class VolumePlace:
    """The driver of a volume, and the terms for where it can be, none for everywhere; `missing` says why no node will do."""

    driver: str = ""
    terms: tuple[NodeQuery, ...] = ()
    missing: str = ""


@dataclass(slots=True)
class FreeVolumes:
    """The unclaimed volumes of a class; their common place is only recomputed when it may have changed."""

    _places: dict[str, VolumePlace] = field(default_factory=dict)
    _drivers: Counter[str] = field(default_factory=Counter)
    _terms: Counter[NodeQuery] = field(default_factory=Counter)
    _anywhere: int = 0
    _common: VolumePlace | None = None

    def add(self, name: str, place: VolumePlace) -> bool:
        """Add a volume; whether `place` may have changed."""
        self._places[name] = place
        return self._count(place, 1)

    def remove(self, name: str) -> bool:
        """A volume is no longer free; whether `place` may have changed."""
        return self._count(self._places.pop(name), -1)

    def of(self, name: str) -> VolumePlace | None:
        """Where a volume can be, if it is one of these."""
        return self._places.get(name)

    def _count(self, place: VolumePlace, by: int) -> bool:
        self._anywhere += 0 if place.terms else by
        turned = not place.terms and self._anywhere == max(by, 0)
        turned |= _count(self._drivers, (place.driver,), by)
        turned |= _count(self._terms, place.terms, by)
        if turned:
            self._common = None
        return turned

    def place(self, storage_class: str) -> VolumePlace | None:
        """Where one of them can be, and its driver; None without volumes."""
        if not self._places:
            return None
        if self._common is None:
            self._common = self._work_out(storage_class)
        return self._common

    def _work_out(self, storage_class: str) -> VolumePlace:
        # One driver stands for the class; the least name makes it the same each time.
        driver = min(self._drivers)
        if self._anywhere:
            return VolumePlace(driver)
        terms = _merged(self._terms) if len(self._terms) <= MOST_PLACES else ()
        if 0 < len(terms) <= MOST:
            return VolumePlace(driver, terms)
        bound = f"more than {MOST_PLACES} places, or {MOST} that differ in more than one value, are not looked at"
        return VolumePlace(missing=f"free volumes of class '{storage_class}' are at {len(self._terms)} places; {bound}")


def _count(counts: Counter[_Key], keys: Iterable[_Key], by: int) -> bool:
    """Count one more or one less of each; whether one is new or gone."""
    turned = False
    for key in keys:
        counts[key] += by
        turned |= counts[key] == max(by, 0)
        if not counts[key]:
            del counts[key]
    return turned


def _merged(terms: Iterable[NodeQuery]) -> tuple[NodeQuery, ...]:
    """The same places in fewer terms: terms that differ only in the values of one requirement become one. Sorted."""
    # A thousand local volumes, each with a node's name, would otherwise be a thousand terms.
    values: dict[tuple[NodeQuery, int], set[str]] = {}
    for term in terms:
        place = _varying(term)
        mine = term.expressions[place].values if place >= 0 else ()
        values.setdefault((_filled(term, place, ()), place), set()).update(mine)
    merged: list[NodeQuery] = []
    for (rest, place), names in values.items():
        ordered = sorted(names)
        parts = range(0, max(len(ordered), 1), MOST_VALUES)
        merged += [_filled(rest, place, tuple(ordered[begin : begin + MOST_VALUES])) for begin in parts]
    return tuple(sorted(merged, key=repr))


def _filled(term: NodeQuery, place: int, values: tuple[str, ...]) -> NodeQuery:
    """A term with these values in one of its demands."""
    return replace(
        term,
        expressions=tuple(replace(demand, values=values) if n == place else demand for n, demand in enumerate(term.expressions)),
    )


def _varying(term: NodeQuery) -> int:
    """Which demand the volumes of a class differ in: that on the name of the node, else the first with values; or -1."""
    able = [n for n, demand in enumerate(term.expressions) if demand.operator == "In" and demand.values]
    return min(able, key=lambda n: (term.expressions[n].key != HOSTNAME, n), default=-1)


@dataclass(slots=True)
class VolumeIndex:
    """Claims, volumes and classes by name, and the pods that use each claim."""

    claims: dict[str, ClaimObject] = field(default_factory=dict)
    volumes: dict[str, VolumeObject] = field(default_factory=dict)
    classes: dict[str, StorageClassObject] = field(default_factory=dict)
    free: dict[str, FreeVolumes] = field(default_factory=dict)
    """Unclaimed volumes, by class."""
    users: dict[str, set[str]] = field(default_factory=dict)
    """Uids of pods, by claim."""
    _claims_of: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _bound_to: dict[str, set[str]] = field(default_factory=dict)
    """Claims by the volume that they name."""
    _unbound_of: dict[str, set[str]] = field(default_factory=dict)
    """Claims that name no volume, by class."""
    _changed: set[str] = field(default_factory=set)
    """Classes whose free volumes may have changed."""

    # Claims, volumes and classes

    def see(self, item: ClaimObject | VolumeObject | StorageClassObject) -> set[str]:
        """An object exists; returns the claims that it affects."""
        meta = item.metadata
        match item:
            case ClaimObject():
                key = f"{meta.namespace}/{meta.name}"
                self._forget_claim(key)
                self.claims[key] = item
                table, name = self._peers(item)
                table.setdefault(name, set()).add(key)
                return {key}
            case VolumeObject():
                return self._volume_changed(meta.name, item)
            case StorageClassObject():
                self.classes[meta.name] = item
                return set(self._unbound_of.get(meta.name, ()))

    def gone(self, kind: str, namespace: str, name: str) -> set[str]:
        """An object is gone; returns the claims that it affected. `kind` is that of the watch."""
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

    def _volume_changed(self, name: str, volume: VolumeObject | None) -> set[str]:
        """The claims that name a volume; `take_reconsidered` returns those that may get it."""
        before = self.volumes.pop(name, None)
        if volume is not None:
            self.volumes[name] = volume
        claims = set(self._bound_to.get(name, ()))
        was = None if before is None or not _available(before) else before.spec.storage_class_name
        now = None if volume is None or not _available(volume) else volume.spec.storage_class_name
        place = None if volume is None or now is None else _place(volume)
        if was == now and (was is None or self._free(was).of(name) == place):
            return claims
        if was is not None and self._free(was).remove(name):
            self._changed.add(was)
        if now is not None and place is not None and self._free(now).add(name, place):
            self._changed.add(now)
        return claims

    def take_reconsidered(self) -> set[str]:
        """Claims that may get another free volume than at the last call: one pass for all volumes since then."""
        changed, self._changed = self._changed, set()
        classes = {name: self.classes.get(name) for name in changed}
        able = [name for name, made in classes.items() if made is not None and made.provisioner == NO_PROVISIONER]
        return {claim for name in able for claim in self._unbound_of.get(name, ())}

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
            others_using = self.users[claim]
            others_using.discard(uid)
            others |= others_using if len(others_using) == 1 else set()
            if not others_using:
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
        """The volumes of a pod that matter to scheduling; those that can be anywhere and are not counted are left out.

        A claim that several of a pod's volumes name is one volume.
        """
        names = {claim: name for name, claim in sorted(claims_of(pod).items(), reverse=True)}
        volumes = [self._volume(name, claim) for claim, name in sorted(names.items(), key=lambda volume: volume[1])]
        return tuple(volume for volume in volumes if volume.missing or volume.terms or volume.exclusive or volume.driver)

    def _volume(self, name: str, key: str) -> AttachedVolume:
        own = len(self.users.get(key, ())) < 2  # noqa: PLR2004  # the pod itself
        # A claim that one pod uses goes by the volume's name in the pod, so that pods of a set share a shape as long as their
        # volumes can be in the same places.
        handle = name if own else key
        claim = self.claims.get(key)
        if claim is None:
            return AttachedVolume("", handle, own=own, missing=f"persistentvolumeclaim '{key}' not found")
        if over := _over(claim, key):
            return AttachedVolume("", handle, own=own, missing=over)
        exclusive = not own and ONE_POD in (claim.spec.access_modes or ())
        place = self._bound(claim) if claim.spec.volume_name else self._unbound(claim)
        if len(place.terms) > MOST:
            many = f"the volume of persistentvolumeclaim '{key}' is bound to its nodes by {len(place.terms)} terms"
            place = VolumePlace(missing=f"{many}; more than {MOST} are not looked at")
        return AttachedVolume(place.driver, handle, place.terms, exclusive, own, place.missing)

    def _bound(self, claim: ClaimObject) -> VolumePlace:
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is None:
            return VolumePlace(missing=f"persistentvolume '{claim.spec.volume_name}' not found")
        return _place(volume)

    def _unbound(self, claim: ClaimObject) -> VolumePlace:
        """A claim that has no volume yet: it will be where its pod goes, as far as its class lets it."""
        name, key = claim.spec.storage_class_name or "", f"{claim.metadata.namespace}/{claim.metadata.name}"
        made = self.classes.get(name)
        if made is None:
            return VolumePlace(missing=f"storageclass '{name}' of persistentvolumeclaim '{key}' not found")
        # The volume is made wherever its driver likes, so nobody knows yet where the pod will fit.
        if made.volume_binding_mode != LATE:
            return VolumePlace(missing=f"persistentvolumeclaim '{key}' is not bound yet, and its class binds at once")
        if made.provisioner == NO_PROVISIONER:
            return self._found(name, key)
        terms = tuple(NodeQuery(_demands(topology.match_label_expressions, "In")) for topology in made.allowed_topologies or ())
        return VolumePlace(MIGRATED.get(made.provisioner, made.provisioner), terms)

    def _found(self, name: str, key: str) -> VolumePlace:
        """An existing unclaimed volume: any of them will do."""
        none = VolumePlace(missing=f"persistentvolumeclaim '{key}' has no volume, and there is none of class '{name}' for it")
        return self._free(name).place(name) or none


def _over(claim: ClaimObject, key: str) -> str:
    """Why the scheduler places no more pods of a claim; empty if it does. Source: podHasPVCs of its plugin VolumeBinding."""
    if claim.status.phase == LOST:
        return f"persistentvolumeclaim '{key}' has lost its volume '{claim.spec.volume_name}'"
    return "" if claim.metadata.deletion_timestamp is None else f"persistentvolumeclaim '{key}' is being deleted"


def _available(volume: VolumeObject) -> bool:
    return volume.status.phase == "Available"


def _place(volume: VolumeObject) -> VolumePlace:
    return VolumePlace(_driver(volume), tuple(_where(volume)))


def _driver(volume: VolumeObject) -> str:
    """The driver that attaches a volume; empty if there is none."""
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
    # Terms are alternatives and the labels of zones hold for each of them, so they go into every term.
    return [NodeQuery((*_demands(term.match_expressions), *zones), _demands(term.match_fields)) for term in required]


def _demands(expressions: Iterable[SelectorTermExpression] | None, operator: str = "") -> tuple[LabelDemand, ...]:
    return tuple(
        LabelDemand(expression.key, operator or expression.operator, tuple(expression.values or ()))
        for expression in expressions or ()
    )
