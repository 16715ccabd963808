"""`python -m tests.torture --seed 1 --kills 20 [--short] [--stages pipeline|sums]`: prints one line.

Exit code 0 if all is EXACT, 1 if something is WRONG, 3 if nothing is, but too little happened to show it.

`--mutants` runs the short torture with each mutant instead; exit code 0 if every one of them comes out WRONG.
"""

import argparse
import asyncio
import dataclasses
import faulthandler
import logging
import signal
import sys

import structlog

from tests.torture import faulty_nodes, faulty_replicas, node_torture, node_torture_options, replica_torture
from tests.torture.mutant_consumers import MUTANTS
from tests.torture.mutant_runs import survivors
from tests.torture.mutant_workers import IN_WORKERS
from tests.torture.torture_options import SHORT, TortureOptions
from tests.torture.torture_run import run

parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--kills", type=int, default=20)
parser.add_argument("--partitions", type=int, default=0, help="of each topic; as few as a run of the kind has, if not given")
parser.add_argument("--moved-to", type=int, help="partitions into which the log is moved at the end; 0 moves nothing")
parser.add_argument("--short", action="store_true", help="about a minute: 3 kills, one freeze")
parser.add_argument("--stages", default="pipeline", choices=("pipeline", "sums"))
parser.add_argument("--nodes", action="store_true", help="node groups instead of pods")
parser.add_argument("--replicas", action="store_true", help="forecasts and replicas instead of pods")
parser.add_argument("--mutants", action="store_true", help=f"the short torture of {', '.join((*IN_WORKERS, *MUTANTS))}")
wrong = ("", *faulty_nodes.MUTANTS, *faulty_replicas.MUTANTS)
parser.add_argument("--mutant", default="", choices=wrong, help="with --nodes or --replicas: a process that is wrong")
args = parser.parse_args()
faulthandler.register(signal.SIGUSR1)  # shows what a run that hangs is waiting for
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a killed broker is part of it
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
if args.nodes:
    chosen = node_torture_options.SHORT if args.short else node_torture_options.NodeTortureOptions()
    sys.exit(asyncio.run(node_torture.run(dataclasses.replace(chosen, seed=args.seed, mutant=args.mutant))).exit_code)
if args.replicas:
    wished = replica_torture.SHORT if args.short else replica_torture.ReplicaTortureOptions()
    sys.exit(asyncio.run(replica_torture.run(dataclasses.replace(wished, seed=args.seed, mutant=args.mutant))).exit_code)
if args.mutants:
    sys.exit(bool(asyncio.run(survivors(args.seed))))
if args.short:
    options = dataclasses.replace(SHORT, seed=args.seed, stages=args.stages)
else:
    options = TortureOptions(args.seed, kills=args.kills, stages=args.stages)
if args.partitions:
    options = dataclasses.replace(options, partitions=args.partitions)
if args.moved_to is not None:
    options = dataclasses.replace(options, moved_to=args.moved_to)
sys.exit(asyncio.run(run(options)).exit_code)
