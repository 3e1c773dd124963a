"""View of SQL: the queries of TPC-H over tables that come in ten parts, in which rows are deleted, at every position."""

import subprocess
import sysconfig
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that

from beam_joins import TableToChanges, View, content, views
from benchmarks.tpch.queries import KEYS, QUERIES
from tests.reference.random_sql import bag
from tests.transforms.changelog_tables import changelog_tables

PARTS = 10


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """The changes of the tables: rows come in ten parts; each 17th is deleted two parts later."""
    folder = tmp_path_factory.mktemp("tpch")
    program = Path(sysconfig.get_path("scripts"), "tpchgen-cli")
    subprocess.run([program, "parquet", "--scale-factor", "0.01", "--output-dir", folder], check=True, capture_output=True)
    made = {}
    for name in KEYS:
        table = pq.read_table(folder / f"{name}.parquet")
        types = pa.schema([(each.name, pa.string() if each.type == pa.string_view() else each.type) for each in table.schema])
        row = np.arange(len(table))
        is_fixed = len(table) < 100  # regions and nations are there from the start
        begin = np.zeros(len(table), np.int64) if is_fixed else row * 7 % PARTS
        gone = np.flatnonzero((row % 17 == 0) & (begin < PARTS - 2) & (not is_fixed))
        log = pa.concat_tables([table.cast(types), table.cast(types).take(gone)])
        log = log.append_column("op", pa.array(["u"] * len(row) + ["d"] * len(gone)))
        made[name] = log.append_column("position", pa.array(np.concatenate([begin, begin[gone] + 2])))
    return made


def contents(log, key, position):
    """The rows of a table at a position: the last ones of their keys."""
    keys = ", ".join(key)
    rows = f"SELECT * FROM log WHERE position <= {position} QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY position DESC) = 1"
    return duckdb.sql(f"SELECT * EXCLUDE (op, position) FROM ({rows}) WHERE op <> 'd'").to_arrow_table()


def in_digits(rows):
    """Rows whose numbers have six digits: DuckDB's means of decimals are floating-point numbers."""
    return bag([[round(float(value), 4) if hasattr(value, "as_integer_ratio") else value for value in row] for row in rows])


def compare(changes, query, log):
    with duckdb.connect() as database:
        for position in range(PARTS):
            for name, rows in log.items():
                database.register(name, contents(rows, KEYS[name], position))
            kept, expected = (
                in_digits(row.values() for row in content(changes, position).values()),
                in_digits(database.execute(query).fetchall()),
            )
            assert kept == expected, f"at {position}: {kept - expected} {expected - kept}"


@pytest.mark.sweep
@pytest.mark.parametrize("number", QUERIES)
def test_a_query_of_tpch_is_right_at_every_position(direct, logs, number):
    relations = {name: views.table(name, pa.schema(list(log.schema)[:-2]), key=KEYS[name]) for name, log in logs.items()}
    relation = views.sql(QUERIES[number], relations)
    read = {name: log for name, log in logs.items() if f"table {name}:" in str(relation)}
    with direct() as p:
        inputs = changelog_tables(p, {name: (log, KEYS[name]) for name, log in read.items()})
        changes = inputs | View(relation) | TableToChanges()
        assert_that(changes, lambda got: compare(got, QUERIES[number], read))
