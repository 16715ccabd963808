"""The list of guards: people find each of them in the docs."""

import re
from pathlib import Path

from agents.logic.updates import update_guards
from agents.logic.updates.guard_records import GUARDS

CLUSTER_PAGE = Path(__file__).parents[4] / "docs/cluster.md"
EXPLAINED_ABOVE = {"mode", "paused"}
"""Guards that are what the page is about, so that the table leaves them out."""


def test_each_guard_has_a_row_in_the_docs_and_the_docs_name_no_other() -> None:
    table = CLUSTER_PAGE.read_text().partition("| guard | when | setting |")[2].partition("\n\n")[0]
    documented = [name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])]
    assert sorted(documented) == sorted(guard.name for guard in GUARDS if guard.name not in EXPLAINED_ABOVE)


def test_each_guard_has_a_judgement_and_no_judgement_lacks_a_record() -> None:
    assert list(update_guards._JUDGEMENTS) == [guard.name for guard in GUARDS]
