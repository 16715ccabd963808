"""How a pretended kubelet (kwok) answers, beside kwok's own stages for nodes and deleted pods.

A scheduled pod runs at once and reports its resources as in force, as a kubelet does that can resize in place. A second after its
spec asks for other resources they are in force; nothing restarts. The pod annotation RESIZE changes that: `Deferred` and
`Infeasible` make the kubelet say so; `Slow` makes it say that the resize is in progress, and finish two seconds later.
Does not add up what a node holds: who wants a full node sets the annotation.
"""

from pathlib import Path

import yaml

RESIZE = "ullage.test/resize"
SYNCED = "ullage.test/synced"
"""An annotation of a pod: when it was to be looked at again."""

_HERE: dict[str, object] = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
_DIFFERS = (
    ".spec.containers as $asked | [.status.containerStatuses[]? as $now | $asked[]"
    " | select(.name == $now.name) | (.resources // {}) != ($now.resources // {})] | any"
)
_STARTED = """
{{ $pod := . }}
{{ $now := Now | Quote }}
phase: Running
startTime: {{ $now }}
observedGeneration: {{ .metadata.generation }}
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
hostIPs:
- ip: {{ index . 0 | Quote }}
{{ end }}
{{ with PodIPsWith .spec.nodeName (or .spec.hostNetwork false) .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index . 0 | Quote }}
podIPs:
- ip: {{ index . 0 | Quote }}
{{ end }}
conditions:
{{ range list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
- type: {{ . }}
  status: "True"
  lastTransitionTime: {{ $now }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name }}
  image: {{ .image | Quote }}
  imageID: ""
  containerID: {{ printf "kwok://%s/%s" $pod.metadata.uid .name | Quote }}
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now }}
  resources: {{ toJson (or .resources dict) }}
  allocatedResources: {{ toJson (or .resources.requests dict) }}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name }}
  image: {{ .image | Quote }}
  imageID: ""
  containerID: {{ printf "kwok://%s/%s" $pod.metadata.uid .name | Quote }}
  ready: true
  restartCount: 0
  resources: {{ toJson (or .resources dict) }}
  allocatedResources: {{ toJson (or .resources.requests dict) }}
  {{ if eq (or .restartPolicy "") "Always" }}
  started: true
  state:
    running:
      startedAt: {{ $now }}
  {{ else }}
  started: false
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now }}
      finishedAt: {{ $now }}
  {{ end }}
{{ end }}
"""
_IN_FORCE = """
{{ $pod := . }}
observedGeneration: {{ .metadata.generation }}
conditions:
- $patch: delete
  type: PodResizePending
- $patch: delete
  type: PodResizeInProgress
containerStatuses:
{{ range $now := $pod.status.containerStatuses }}
{{ range $asked := $pod.spec.containers }}
{{ if eq $asked.name $now.name }}
{{ $new := dict "resources" (or $asked.resources dict) "allocatedResources" (or $asked.resources.requests dict) }}
- {{ toJson (merge $new (omit $now "resources" "allocatedResources")) }}
{{ end }}
{{ end }}
{{ end }}
"""
_REFUSED = f"""
conditions:
- type: PodResizePending
  status: "True"
  reason: {{{{ index .metadata.annotations "{RESIZE}" }}}}
  message: as the annotation says
  lastTransitionTime: {{{{ Now | Quote }}}}
"""
_BEGUN = """
conditions:
- type: PodResizeInProgress
  status: "True"
  lastTransitionTime: {{ Now | Quote }}
"""


def write(stock: Path, to: Path) -> None:
    """All stages in one file: kwok's own from the folder `stock`, but that pods of Jobs are done at once, then ours."""
    own = [yaml.safe_dump(stage, sort_keys=False) for stage in _own()]
    files = (file for file in sorted(stock.iterdir()) if file.name != "pod-complete.yaml")
    to.write_text("\n---\n".join([*(file.read_text(encoding="utf-8") for file in files), *own]), encoding="utf-8")


def _own() -> list[dict[str, object]]:
    running = [_HERE, _one_of(".status.phase", "Running")]
    differs = [*running, _one_of(_DIFFERS, "true")]
    word = f'.metadata.annotations["{RESIZE}"] // "none"'
    return [
        _stage("pod-start", [_HERE, _one_of(".status.phase", "Pending")], _STARTED, kind="merge"),
        _stage("pod-resize", [*differs, _one_of(word, "none")], _IN_FORCE, wait_ms=1000),
        _stage("pod-resize-refused", [*differs, _one_of(word, "Deferred", "Infeasible"), _not_yet("PodResizePending")], _REFUSED),
        _stage("pod-resize-begun", [*differs, _one_of(word, "Slow"), _not_yet("PodResizeInProgress")], _BEGUN),
        _stage("pod-resize-finished", [*running, _one_of(_status("PodResizeInProgress"), "True")], _IN_FORCE, wait_ms=2000),
    ]


def _stage(
    name: str, when: list[dict[str, object]], template: str, *, wait_ms: int = 0, kind: str = "strategic"
) -> dict[str, object]:
    patch = {"subresource": "status", "root": "status", "type": kind, "template": template}
    spec: dict[str, object] = {"resourceRef": {"apiGroup": "v1", "kind": "Pod"}, "selector": {"matchExpressions": when}}
    spec["next"] = {"patches": [patch]}
    if wait_ms:
        spec["delay"] = {"durationMilliseconds": wait_ms}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _one_of(key: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": "In", "values": list(values)}


def _not_yet(condition: str) -> dict[str, object]:
    return {"key": _status(condition), "operator": "NotIn", "values": ["True"]}


def _status(condition: str) -> str:
    return f'.status.conditions[]? | select(.type == "{condition}") | .status'
