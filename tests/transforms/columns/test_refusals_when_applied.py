"""What is refused as soon as the types of the columns, or the columns of a batch, are known."""

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    Change,
    FilterTable,
    ForeignKeyJoin,
    OneToManyJoin,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableToChanges,
    WindowedStreamJoin,
    vectorized,
)

ROWS = pa.table({"id": [1, 2], "lsn": [7, 8], "name": ["Ann", "Bob"], "at": [5, 6], "op": ["i", "u"], "n": [0, 0]})
CDC = {"key": "id", "sequence_by": "lsn", "timestamp_by": "at"}


def table(p, name="table", rows=ROWS, **options):
    return p | f"{name} batches" >> beam.Create([rows]) | name >> TableFromChangelog(**{**CDC, **options})


def test_a_vectorized_function_is_refused_where_a_list_of_keys_is_asked_for():
    with pytest.raises(ValueError, match="foreign_keys is vectorized: give a function of key and value .* or the name of a field"):
        ForeignKeyJoin(lambda left, right: right, foreign_keys=vectorized(lambda rows: rows["id"]))


def test_a_vectorized_predicate_is_refused_where_values_are_known_to_be_opaque(direct):
    p = direct()
    large = FilterTable(vectorized(lambda rows: pc.greater(rows["id"], 1)))
    opaque = p | beam.Create([{"id": 1, "lsn": 1, "at": 1}]) | "of dicts" >> TableFromChangelog(**CDC)
    changes = p | "create" >> beam.Create([Change(1, None, {"id": 1}, timestamp=0, position=0)])
    for label, rows in (("opaque", opaque), ("changes", changes)):
        with pytest.raises(ValueError, match=r"the values of this table are Python objects \(opaque\).*give .* schema="):
            _ = rows | label >> large


@pytest.mark.parametrize(
    ("predicate", "complaint"),
    [
        (lambda rows: rows["ID"], "ID.*it is called with no rows when the pipeline is built"),
        (lambda rows: rows["id"], "predicate gave values of type int64: give true for a row that stays"),
    ],
)
def test_a_vectorized_predicate_that_cannot_be_right_is_refused_when_applied(direct, predicate, complaint):
    with pytest.raises(ValueError, match=complaint):
        _ = table(direct()) | FilterTable(vectorized(predicate))


@pytest.mark.parametrize(
    ("join", "message"),
    [
        (lambda **o: StreamTableJoin({"n": "table.n"}, sequence_by="lsn"), "of streams in columns needs key= and timestamp_by="),
        (lambda **o: StreamTableJoin(lambda value, row: row, **o), "of streams in columns gives record batches, and a joiner of one"),
        (lambda **o: StreamTableJoin({"n": "table.m"}, **o), "the table table has no column 'm'"),
        (lambda **o: StreamTableJoin({"n": "table.n"}, **{**o, "key": "name"}), "joins keys of type string with keys of type int64"),
        (lambda **o: StreamForeignKeyJoin({"n": "table.n"}, foreign_key="ids", **o), "foreign_key='ids': there is no such column"),
        (
            lambda **o: StreamForeignKeyJoin({"n": "table.n"}, foreign_key="name", **o),
            "joins keys that the stream looks up of type string with keys of type int64",
        ),
    ],
)
def test_a_stream_of_arrow_batches_is_joined_by_columns_that_are_there(direct, join, message):
    p = direct()
    with pytest.raises(ValueError, match=message):
        _ = (p | beam.Create([ROWS]), table(p)) | join(key="id", timestamp_by="at", sequence_by="lsn")


@pytest.mark.parametrize(
    ("option", "message", "lacks"),
    [
        ("key", "id", "id"),
        ("key", ["id", "name"], "name"),
        ("timestamp_by", "at", "at"),
        ("sequence_by", "lsn", "lsn"),
        ("sequence_by", ["lsn", "n"], "n"),
        ("tie_break_by", "n", "n"),
        ("apply_as_deletes", {"op": ["d"]}, "op"),
    ],
)
@pytest.mark.parametrize("handling", [False, True], ids=["failing", "handling exceptions"])
@pytest.mark.each_value
def test_a_batch_of_a_changelog_without_a_column_that_an_option_names_fails_the_run(direct, option, message, lacks, handling):
    batch = ROWS.drop_columns(lacks)
    made = TableFromChangelog(**{**CDC, option: message})
    with (
        pytest.raises(Exception, match=f"{option}='{lacks}': a batch has no such column; it has {', '.join(batch.column_names)}"),
        direct() as p,
    ):
        _ = p | beam.Create([ROWS, batch]) | (made.with_exception_handling() if handling else made)


def test_a_batch_of_a_stream_without_its_key_or_time_fails_the_run(direct):
    join = {"before": 1, "after": 1, "grace": 1, "key": "id", "timestamp_by": "at"}
    for lacks in ("id", "at"):
        with pytest.raises(Exception, match=f"='{lacks}': a batch has no such column; it has "), direct() as p:
            left = p | beam.Create([ROWS, ROWS.drop_columns(lacks)])
            right = p | "right" >> beam.Create([ROWS])
            _ = (left, right) | WindowedStreamJoin({"n": "left.n"}, **join)


def test_a_batch_may_lack_a_column_that_no_option_names(direct):
    with direct() as p:
        batches = p | beam.Create([ROWS.slice(0, 1), ROWS.slice(1).drop_columns(["name", "op"])])
        names = batches | TableFromChangelog(**CDC) | TableToChanges() | beam.Map(lambda change: change.new["name"])
        assert_that(names, equal_to(["Ann", None]))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda **by: ForeignKeyJoin({"x": "left.n"}, **by), "ForeignKeyJoin"),
        (lambda **by: ForeignKeyJoin({"x": "left.n"}, how="left", **by), "ForeignKeyJoin"),
        (lambda **by: OneToManyJoin({"x": "left.n"}, **by), "OneToManyJoin"),
    ],
)
@pytest.mark.parametrize("key", ["name", vectorized(lambda rows: rows["name"])], ids=["by name", "vectorized"])
def test_foreign_keys_of_a_type_that_no_key_can_equal_are_refused_when_applied(direct, make, name, key):
    p = direct()
    with pytest.raises(ValueError, match=f"{name} joins foreign keys of type string with keys of type int64: they are never equal"):
        _ = (table(p), table(p, "other")) | make(foreign_key=key)


def test_foreign_keys_of_another_type_that_may_be_equal_are_joined(direct):
    rows = ROWS.set_column(0, "id", pa.array([1.0, 2.5]))
    with direct() as p:
        joined = (table(p, rows=rows), table(p, "other")) | ForeignKeyJoin({"x": "right.name"}, foreign_key="id")
        assert_that(joined | TableToChanges() | beam.Map(lambda change: (change.key, change.new["x"])), equal_to([(1.0, "Ann")]))
