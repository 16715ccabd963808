"""Writes streams/clients/aws/instance_sizes.csv from what moto knows of EC2's instance types: numbers only, a line a type."""

import csv
import io
from pathlib import Path

from streams.clients.aws import ec2_instances

TABLE = Path(__file__).parents[2] / "streams" / "clients" / "aws" / ec2_instances.FILE


def snapshot() -> str:
    """The table's text."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    for name in sorted(INSTANCE_TYPES):
        size = ec2_instances.read_size(INSTANCE_TYPES[name])
        rows.writerow((size.name, size.vcpus, size.memory_mib, size.gpus, size.architecture))
    return written.getvalue()


if __name__ == "__main__":
    TABLE.write_text(snapshot(), encoding="utf-8")
