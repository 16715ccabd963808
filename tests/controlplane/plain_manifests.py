"""The plain manifests of deploy/kustomize, as Helm makes them of the chart; `make manifests` writes them.

They are the chart's mode `watch`. What only Helm says of itself is left out; the settings stand in a file of their own.
"""

import subprocess
from pathlib import Path

import yaml

from tests.controlplane import build
from tests.support.commands import ROOT

BASE = ROOT / "deploy/kustomize/base"
VALUES = ["clusterName=my-cluster", "kafka.brokers=kafka:9092"]
_HEAD = "# Made from deploy/helm/ullage by `make manifests`; do not edit, but patch it in an overlay (../README.md).\n"
_OF_HELM = {"app.kubernetes.io/managed-by", "helm.sh/chart"}


def made(helm: Path) -> dict[str, str]:
    """The text of each file by its name."""
    sets = [word for value in VALUES for word in ("--set-string", value)]
    words = ["template", "ullage", str(ROOT / "deploy/helm/ullage"), "--namespace", "ullage", "--kube-version", "1.34.0", *sets]
    said = subprocess.run([str(helm), *words], capture_output=True, text=True, check=True, timeout=60).stdout
    documents = [_without_helm(document) for document in yaml.safe_load_all(said) if document and not _hook(document)]
    settings = [document for document in documents if document["kind"] == "ConfigMap"]
    rest = [document for document in documents if document["kind"] != "ConfigMap"]
    return {name: _HEAD + yaml.safe_dump_all(part, sort_keys=False, width=130) for name, part in _files(settings, rest)}


def _files(settings: list[dict[str, object]], rest: list[dict[str, object]]) -> list[tuple[str, list[dict[str, object]]]]:
    rights = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    return [
        ("settings.yaml", settings),
        ("rights.yaml", [document for document in rest if document["kind"] in rights]),
        ("components.yaml", [document for document in rest if document["kind"] not in rights]),
    ]


def _hook(document: dict[str, dict[str, dict[str, str]]]) -> bool:
    """Whether Helm alone makes the object, at a moment of its own, such as the pod of `helm test`."""
    return "helm.sh/hook" in document["metadata"].get("annotations", {})


def _without_helm(tree: dict[str, object]) -> dict[str, object]:
    return {key: _without_helm(value) if isinstance(value, dict) else value for key, value in tree.items() if key not in _OF_HELM}


def main() -> None:
    """Write all files."""
    for name, text in made(build.helm()).items():
        (BASE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
