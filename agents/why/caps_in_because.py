"""What the numbers under a decision say of caps: which node, which policy, and which caps of a container.

Nobody is bound to write them in one form, so anything else says nothing.
"""

from collections.abc import Mapping

Because = Mapping[str, object]


def node(because: Because) -> str:
    """The node that a workload's pods were cut down to; empty where there is none."""
    said = because.get("node")
    name = said.get("node") if isinstance(said, Mapping) else None
    return name if isinstance(name, str) else ""


def policy(because: Because) -> str:
    """The policy that governs the workload, in words; empty where there is none."""
    said = because.get("policy")
    if not isinstance(said, Mapping):
        return ""
    vpa, target = said.get("vpa"), said.get("target")
    return f"VPA '{vpa}'" if isinstance(vpa, str) else f"policy '{target}'" if isinstance(target, str) else ""


def words(because: Because) -> Mapping[str, tuple[str, ...]]:
    """The words for what caps each container, by which guard `capped` refused."""
    said = because.get("caps")
    caps = said if isinstance(said, Mapping) else {}
    return {
        name: tuple(word for word in each if isinstance(word, str))
        for name, each in caps.items()
        if isinstance(name, str) and isinstance(each, list | tuple)
    }
