"""The rights on Kafka of docs/security.md as the Helm chart reads them, which makes its users by them.

`python -m tests.support.chart_rights` writes the chart's file. `{prefix}` and `{name}` are `topics.prefix` and `worker.name`.
"""

import json
from collections import defaultdict

from tests.support.commands import ROOT
from tests.support.documented_rights import documented_rights

FILE = ROOT / "deploy/helm/ullage/files/rights.json"


def text() -> str:
    """A JSON object: for each user of the table a list of rights, as `ullage topics users` reads them."""
    users = {}
    for user, grants in documented_rights("{prefix}", "{name}").items():
        named: dict[tuple[str, str, bool], list[str]] = defaultdict(list)
        for grant in grants:
            named[grant.resource, grant.operation, grant.name.endswith("*")].append(grant.name.rstrip("*"))
        users[user] = [
            {"kind": kind, "operations": [operation], "names": names, "prefix": prefix}
            for (kind, operation, prefix), names in named.items()
        ]
    return "{\n" + ",\n".join(f" {json.dumps(user)}: {json.dumps(rights)}" for user, rights in users.items()) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
