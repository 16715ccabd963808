"""What the pods of the chart mount, as files below a folder, so that a process can be started as its pod starts it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.controlplane.chart_values import pods


def mount(documents: list[dict[str, Any]], folder: Path, contents: Mapping[str, Mapping[str, bytes]]) -> Path:
    """Write the ConfigMaps and Secrets that pods mount; returns the settings file, in which all paths lead below `folder`.

    `contents`: what the cluster has, by name of the ConfigMap or Secret and of the file. What the chart itself renders is known.
    """
    known = {**{d["metadata"]["name"]: d["data"] for d in documents if d["kind"] == "ConfigMap"}, **contents}
    for pod in pods(documents).values():
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        for container in pod["spec"]["containers"]:
            for mounted in container["volumeMounts"]:
                volume = volumes[mounted["name"]]
                source = volume.get("configMap", {}).get("name") or volume.get("secret", {}).get("secretName")
                place = folder / mounted["mountPath"].lstrip("/")
                place.mkdir(parents=True, exist_ok=True)
                for name, content in known.get(source, {}).items():
                    (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    settings = folder / "etc/ullage/settings/ullage.yaml"
    settings.write_text(settings.read_text().replace("/etc/", f"{folder}/etc/"))
    return settings
