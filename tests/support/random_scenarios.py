"""Random scenarios for properties of whole logs: pods resized many times, admitted, killed and evicted, replicas and nodes."""

import random
from typing import Any

from agents.demo.scenario_file import Scenario

_SHAPES = (
    lambda chance: {"shape": "diurnal", "low": 0.05, "high": chance.uniform(0.2, 1.2), "memory": 180, "swing": 60},
    lambda chance: {"shape": "leak", "cores": 0.1, "memory": 100, "per_hour": chance.randint(300, 6000)},
    lambda chance: {"shape": "jvm", "low": 0.05, "high": 0.4, "heap": chance.randint(300, 3000), "warm_up": 600},
    lambda chance: {
        "shape": "bursty",
        "calm": 0.05,
        "burst": chance.uniform(0.5, 2),
        "memory": 150,
        "burst_memory": 700,
        "often": 0.3,
    },
)


def scenario(seed: int) -> Scenario:
    """The scenario of a seed, of 15 to 40 simulated minutes."""
    chance = random.Random(seed)
    groups = [{"name": "general", "type": "m5.xlarge", "least": 1, "most": 8, "desired": chance.randint(1, 6), "boot": 30}]
    return Scenario.model_validate(
        {
            "length": f"{chance.randint(15, 40)}m",
            "seed": seed,
            "budget": chance.choice([0.1, 0.25, 0.5]),
            "mode": chance.choice(["InPlaceOrRecreate", "InPlaceOrRecreate", "InPlace", "Recreate"]),
            **({"groups": groups} if chance.random() < 0.6 else {"nodes": {"count": chance.randint(1, 4)}}),
            "workloads": [_workload(chance, number) for number in range(chance.randint(1, 3))] + _scaled(chance),
            "settings": {
                "updates.warm_up": chance.choice([60, 300]),
                "updates.lifetime": chance.choice([300, 600]),
                "updates.cool_down": chance.choice([120, 600]),
                "updates.threshold": chance.choice([0.05, 0.1]),
                "nodes.interval": 60,
                "nodes.expires": 600,
                "replicas.expires": 300,
            },
        }
    )


def _workload(chance: random.Random, number: int) -> dict[str, Any]:
    memory = chance.choice([128, 256, 1024])
    limits = {"limits": {"memory": f"{memory * chance.choice([1, 2])}Mi"}} if chance.random() < 0.7 else {}
    return {
        "name": f"shop/w{number}",
        "replicas": chance.randint(1, 4),
        "load": chance.choice(_SHAPES)(chance),
        "requests": {"cpu": chance.choice(["100m", "500m", "2"]), "memory": f"{memory}Mi"},
        **limits,
    }


def _scaled(chance: random.Random) -> list[dict[str, Any]]:
    """A workload whose replicas follow its load, of every second scenario."""
    if chance.random() < 0.5:
        return []
    load = {"shape": "rush", "low": 0.4, "high": 3, "hour": 0.3, "hours": 0.2, "memory": 200}
    scaling = {"least": 1, "most": 8, "utilization": 60, "ahead": 600, "days": 1}
    return [
        {"name": "shop/orders", "replicas": 2, "load": load, "requests": {"cpu": "500m", "memory": "512Mi"}, "scaling": scaling}
    ]
