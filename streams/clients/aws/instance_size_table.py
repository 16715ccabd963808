"""Instance types that ship with the program, for accounts that may not ask EC2: name, processors, memory, GPUs, architecture.

`python -m tests.support.instance_size_snapshot` rewrites the table from moto's data about EC2. A type that is younger than the
table is unknown without the right ec2:DescribeInstanceTypes.
"""

import csv
from functools import lru_cache
from importlib import resources

from streams.clients.aws.ec2_instances import InstanceSize

FILE = "instance_sizes.csv"


@lru_cache(maxsize=1)
def read_table() -> dict[str, InstanceSize]:
    """All types of the table, by name."""
    text = (resources.files("streams.clients.aws") / FILE).read_text(encoding="utf-8")
    rows = csv.reader(text.splitlines())
    return {name: InstanceSize(name, int(vcpus), int(memory), int(gpus), kind) for name, vcpus, memory, gpus, kind in rows}
