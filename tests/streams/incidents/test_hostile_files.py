"""An incident file that unpacks to gigabytes is refused before it is unpacked, by the bytes of a row and of all rows."""

from pathlib import Path

import duckdb
import pytest

from streams.errors import BadInput
from streams.incidents.incident_file import IncidentFile
from streams.incidents.incident_manifest import KEY
from tests.support import delta_parquet
from tests.support.child_memory import refusal_and_megabytes

MANIFEST = '{"format":1}'
ROWS = {
    "many rows of one value": ("3000", "repeat('x', 2000000)", "'[]'", "rows of together"),
    "a row of many bytes": ("1", "repeat('x', 40000000)", "'[]'", "a row of"),
    "many headers": ("200", "'x'", '\'[\' || repeat(\'["a","b"],\', 499999) || \'["a","b"]]\'', "headers of"),
}


def bomb(folder: Path, rows: str, value: str, headers: str) -> Path:
    path = folder / "bomb.parquet"
    with duckdb.connect() as db:
        db.execute(
            f'COPY (SELECT \'t\' AS topic, 0::INTEGER AS "partition", range AS "offset", 0::BIGINT AS appended_ms, '  # noqa: S608  # our own texts
            f"NULL::VARCHAR AS key, NULL::BLOB AS key_bytes, {value} AS value, NULL::BLOB AS value_bytes, {headers} AS headers "
            f"FROM range({rows})) TO '{path}' (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{'{KEY}': '{MANIFEST}'}})"
        )
    return path


@pytest.mark.parametrize("name", ROWS)
def test_a_file_that_unpacks_to_too_much_is_refused_with_its_bytes(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, value, headers, why = ROWS[name]
    monkeypatch.setattr("streams.incidents.incident_manifest.decode", lambda *_: None)
    with pytest.raises(BadInput, match=f"has {why} [0-9]+ bytes; [0-9]+ are the most"):
        IncidentFile(bomb(tmp_path, rows, value, headers))


def test_what_reads_it_can_open_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.incidents.incident_manifest.decode", lambda *_: None)
    (tmp_path / "other.csv").write_text("a,b\n")
    with IncidentFile(bomb(tmp_path, "1", "'x'", "'[]'")) as file:
        for query in (
            f"from '{tmp_path}/other.csv'",
            f"copy (select 1) to '{tmp_path}/new.csv'",
            "set enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error, match=r"disabled|locked|Cannot change"):
                file._db.execute(query)


def test_refusing_it_takes_little_memory(tmp_path: Path) -> None:
    rows, value, headers, _ = ROWS["many rows of one value"]
    path = bomb(tmp_path, rows, value, headers)
    assert path.stat().st_size < 100_000
    reader = (
        "from streams.incidents import incident_manifest\n"
        "from streams.incidents.incident_file import IncidentFile as read\n"
        "incident_manifest.decode = lambda *_: None\n"
    )
    name, megabytes = refusal_and_megabytes(reader, path)
    assert name == "BadInput"
    assert megabytes < 200  # of 6 GB: the interpreter and our modules take 75


def test_a_page_that_the_memory_cannot_hold_is_refused_with_its_column_and_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "incident.parquet"
    path.write_bytes(delta_parquet.incident())
    assert path.stat().st_size < 2_000
    monkeypatch.setattr("streams.incidents.incident_manifest.decode", lambda *_: None)
    with pytest.raises(BadInput, match=r'the column "value" of the incident file .* for which 512MB of memory') as refused:
        IncidentFile(path)
    assert str(path) in str(refused.value)
    reader = (
        "from streams.incidents import incident_manifest\n"
        "from streams.incidents.incident_file import IncidentFile as read\n"
        "incident_manifest.decode = lambda *_: None\n"
    )
    name, megabytes = refusal_and_megabytes(reader, path)
    assert name == "BadInput"
    assert megabytes < 200
