"""`python -m tests.torture --seed 1 --kills 20 [--short] [--stages pipeline|sums]`: prints one line; exit code 0 if EXACT."""

import argparse
import asyncio
import dataclasses
import logging
import sys

from tests.torture.torture_run import SHORT, TortureOptions, run

parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--kills", type=int, default=20)
parser.add_argument("--short", action="store_true", help="about a minute: 3 kills, one freeze")
parser.add_argument("--stages", default="pipeline", choices=("pipeline", "sums"))
args = parser.parse_args()
if args.short:
    told = dataclasses.replace(SHORT, seed=args.seed, stages=args.stages)
else:
    told = TortureOptions(args.seed, kills=args.kills, stages=args.stages)
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a killed broker is part of it
sys.exit(not asyncio.run(run(told)).exact)
