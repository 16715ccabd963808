"""`python -m tests.bench.storm`: 2,000 pods are wrongly sized at once, and everything is restarted in the middle.

A simulated cluster of 100 workloads with 20 pods each, updates by eviction, a budget of 10 %; then with `profile: upstream`.
After each step the pods that are not ready are counted. Event time is simulated.
"""

import logging
import sys
import time

import structlog

from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from tests.support.storm import Storm, half_then_restarted

WORKLOADS, REPLICAS, MINUTES = 100, 20, 90


def main() -> None:
    """A line for each profile."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for profile in UpdaterProfile:
        began = time.process_time()
        storm = half_then_restarted(Storm(WORKLOADS, REPLICAS, UpdateSettings(profile=profile), 0.1), MINUTES)
        away = f"away at most {storm.most_away} of {storm.pods} pods, {storm.away_in_workload} of {REPLICAS} of a workload"
        came = f"evictions {storm.evicted()}, wrong in the end {storm.wrong()}, all right after {storm.done_after} min"
        sys.stdout.write(f"{profile.value:<10} {away}; {came}; CPU {time.process_time() - began:.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
