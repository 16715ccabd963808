"""The guards that hold until somebody does something, so that what they say is said again while it lasts.

Commands that read the end of the log for them need nothing else of the updater.
"""

STOPPING = frozenset({"oom-bound", "quota", "successor"})
"""Guards that leave a workload alone; each such workload has a warning of its own in `status`."""
CAPPING = {
    "capped": "",
    "hpa": "HPA",
    "limit-range": "LimitRange",
    "node": "node",
    "service-class": "class",
    "acceptance": "acceptance",
    "quota": "quota",
    "oom-bound": "oom-bound",
}
"""Guards that keep a target from being applied, and the word for what does so; `capped` says in `because` which caps do."""
LASTING = STOPPING | CAPPING.keys()
SAID_AGAIN = 1_800_000
"""Turns (milliseconds) after which one of these is said again."""
