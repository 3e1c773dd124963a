"""What WritePostgres refuses before it asks the database."""

import subprocess
import sys
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins import Change, CountTable, TableFromChangelog
from beam_joins.extras import installing
from beam_joins.io import WritePostgres

NOWHERE = "host=127.0.0.1 port=1"
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conninfo": "nonsense"}, r"conninfo: missing \"=\" after \"nonsense\".*: give NAME=VALUE \.\.\. or postgresql://"),
        ({"table": ""}, "table='': give the name of a table, or SCHEMA.NAME"),
        ({"table": "a.b.c"}, "table='a.b.c': give the name"),
        ({"table": "a."}, "table='a.': give the name"),
        ({"key": ["id", 7]}, r"key=\['id', 7\]: give the name of a column, or several"),
        ({"schema": "id bigint"}, "schema='id bigint': give a pyarrow.Schema"),
        ({"position": "id"}, "give each column a name of its own"),
    ],
)
def test_a_wrong_option_says_what_to_give(options: dict[str, Any], message: str) -> None:
    inputs: dict[str, Any] = {"conninfo": NOWHERE, "table": "t", "key": "id", **options}
    with pytest.raises(ValueError, match=message):
        WritePostgres(inputs.pop("conninfo"), inputs.pop("table"), **inputs)


@pytest.mark.parametrize(
    ("typed", "options", "message"),
    [
        (False, {}, r"the keys and values of this table are Python objects \(opaque\): give schema="),
        (False, {"schema": SCHEMA, "key": "key"}, "key=key: schema= has no column key; it has id, n"),
        (True, {"key": ["a", "b"]}, "key=a, b: give 1 names, as the keys of this table have 1 columns"),
        (True, {"schema": SCHEMA}, "schema= has the columns id, n: give those of the key and of the values, which are id, deleted"),
        (True, {}, "the values have a column deleted: give position= or deleted= another name"),
        (
            True,
            {"deleted": "gone", "schema": pa.schema([("id", pa.int64()), ("deleted", pa.duration("s"))])},
            r"column 'deleted' is duration\[s\], which PostgreSQL has no type for",
        ),
    ],
)
def test_a_table_whose_columns_are_not_known_or_not_those_is_refused_when_it_is_applied(
    typed: bool, options: dict[str, Any], message: str
) -> None:
    pipeline = beam.Pipeline()
    if typed:
        rows = pa.table({"id": [1], "deleted": [False], "lsn": [1]})
        log = pipeline | beam.Create([rows]).with_output_types(pa.Table)
        table = log | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["lsn"])
    else:
        table = pipeline | beam.Create([Change(1, None, {"n": 1}, 1, 1)])
    with pytest.raises(ValueError, match=message):
        _ = table | WritePostgres(NOWHERE, "t", **{"key": "id", **options})


def test_a_value_without_columns_has_one_column() -> None:
    log = beam.Pipeline() | beam.Create([pa.table({"id": [1], "lsn": [1]})]).with_output_types(pa.Table)
    counts = log | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn") | CountTable(group_by="id")
    schema = pa.schema([*SCHEMA, ("more", pa.int64())])
    with pytest.raises(
        ValueError, match="schema= has the columns id, n, more: give those of the key and of the values, which are value"
    ):
        _ = counts | WritePostgres(NOWHERE, "t", key="id", schema=schema)


@pytest.mark.process
@pytest.mark.gate
def test_without_psycopg_the_import_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['psycopg'] = None; import beam_joins.pipelines.systems.postgres.write_postgres"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"PostgreSQL needs psycopg: {installing('postgres')}" in ran.stderr
