"""Functions that write into their arguments, or give what they gave before, change nothing but their results."""

import copy

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import BeamAssertException, assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_joins import (
    AggregateTable,
    Change,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    MapTable,
    OneToManyJoin,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    Window,
    Windowed,
    WindowedAggregate,
    WindowedStreamJoin,
    WindowedTableJoin,
    WindowedTableToStream,
)
from beam_joins.transforms.engine.construction.table_type import TableType, as_table, is_batches

CUSTOMERS = [
    {"id": "ann", "tags": ["a"], "lsn": 1, "gone": False},
    {"id": "bob", "tags": ["b"], "lsn": 2, "gone": False},
    {"id": "ann", "tags": ["aa"], "lsn": 6, "gone": False},
    {"id": "ann", "tags": [], "lsn": 9, "gone": True},
]
ORDERS = [
    {"id": "ann", "by": "ann", "tags": ["x"], "lsn": 3, "gone": False},
    {"id": "eve", "by": "ann", "tags": ["y"], "lsn": 4, "gone": False},
    {"id": "ann", "by": "bob", "tags": ["xx"], "lsn": 7, "gone": False},
    {"id": "eve", "by": "ann", "tags": ["yy"], "lsn": 8, "gone": False},
]
LOG = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn", "apply_as_deletes": "gone"}
REUSED = []
ROW = pa.struct(
    [
        ("id", pa.string()),
        ("by", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("lsn", pa.int64()),
        ("gone", pa.bool_()),
        ("seen", pa.int64()),
    ]
)
JOINED = pa.schema([("left", ROW), ("right", ROW)])


def marked(value):
    """Writes into a value wherever it can be written into."""
    if isinstance(value, dict):
        value["tags"].append("seen")
        value["seen"] = value.get("seen", 0) + 1
    return value


def writing(*values):
    """A function that writes into its arguments and gives them back, in a list that it gives every time."""
    REUSED[:] = [marked(value) for value in values]
    return REUSED


def pure(*values):
    return [marked(copy.deepcopy(value)) for value in values]


def named(joiner):
    """The joiner, giving a dict."""
    return lambda *values: dict(zip(("left", "right"), joiner(*values), strict=True))


def removing(option):
    """A function of key and value, or of a record, that takes a field out of what it is given."""
    return lambda *inputs: inputs[-1].pop(option)


def plan(option):
    return lambda *inputs: inputs[-1][option]


def added(total, value):
    total["tags"].append(marked(value)["seen"])
    return total


def added_anew(total, value):
    return {"tags": [*total["tags"], marked(copy.deepcopy(value))["seen"]]}


def table(p, name, rows, form="records", **options):
    if form == "records":
        return p | name >> beam.Create(rows) | f"Table {name}" >> TableFromChangelog(**{**LOG, **options})
    batches = p | name >> beam.Create([pa.Table.from_pylist(rows)]).with_output_types(pa.Table)
    return batches | f"Table {name}" >> TableFromChangelog(**{**LOG, **options})


def stream(p, name, rows):
    pairs = p | name >> beam.Create([((row["id"], row), row["lsn"]) for row in rows])
    return pairs | f"Times {name}" >> beam.MapTuple(TimestampedValue)


def windowed(p):
    windows = [Window(0, 10), Window(10, 20)]
    rows = [Change(Windowed(key, window), None, {"tags": []}, 0, at) for key in ("ann", "bob") for at, window in enumerate(windows)]
    return as_table(p | "windowed" >> beam.Create(rows), TableType(str, dict, "sequence", windowed=True))


def same(one, other):
    """Asserts that two collections have the same elements, and some."""

    def check(sides):
        (first, second) = (sorted(texts) for _, texts in sorted(sides))
        if first != second:
            raise BeamAssertException(f"{first}\n!=\n{second}")

    sides = [
        (side | f"Changes {i}" >> TableToChanges() if is_batches(side) else side)
        | f"Text {i}" >> beam.Map(lambda element, i=i: (i, repr(element)))
        for i, side in enumerate((one, other))
    ]
    assert_that(sides | "Sides" >> beam.Flatten() | "Both" >> beam.GroupByKey(), check, label="same")


JOINS = {
    **{
        f"foreign key, {how}": (lambda joiner, how=how: ForeignKeyJoin(joiner, foreign_key="by", how=how)) for how in ("inner", "left")
    },
    **{
        f"foreign key, {how}": (lambda joiner, how=how: ForeignKeyJoin(joiner, foreign_key="by", how=how))
        for how in ("right", "outer")
    },
    "foreign keys": lambda joiner: ForeignKeyJoin(joiner, foreign_keys=lambda key, value: [value["by"], "bob"]),
    **{f"table-table, {how}": (lambda joiner, how=how: TableTableJoin(joiner, how=how)) for how in ("inner", "left", "outer")},
}


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.each_value
def test_a_joiner_may_write_into_its_arguments(direct, join, form):
    with direct() as p:
        tables = table(p, "orders", ORDERS, form), table(p, "customers", CUSTOMERS, form)
        same(tables | "writing" >> JOINS[join](writing), tables | "pure" >> JOINS[join](pure))


def test_a_joiner_of_one_and_many_may_write_into_its_arguments(direct):
    with direct() as p:
        tables = table(p, "customers", CUSTOMERS), table(p, "orders", ORDERS)
        one, other = (name >> OneToManyJoin(joiner, foreign_key="by") for name, joiner in (("w", writing), ("p", pure)))
        same(tables | one, tables | other)


def test_a_joiner_of_windowed_tables_may_write_into_its_arguments(direct):
    with direct() as p:
        sides = windowed(p), table(p, "customers", CUSTOMERS)
        same(sides | "writing" >> WindowedTableJoin(writing, how="left"), sides | "pure" >> WindowedTableJoin(pure, how="left"))


STREAM_JOINS = {
    "table": lambda joiner: StreamTableJoin(joiner, how="left", sequence_by=removing("lsn") if joiner is writing else "lsn"),
    "foreign key": lambda joiner: StreamForeignKeyJoin(
        joiner, foreign_key=removing("by") if joiner is writing else "by", how="left", sequence_by="lsn"
    ),
}


@pytest.mark.parametrize("join", STREAM_JOINS)
def test_functions_of_a_stream_that_looks_up_rows_may_write_into_their_arguments(direct, join):
    with direct() as p:
        sides = stream(p, "orders", ORDERS), table(p, "customers", CUSTOMERS)
        same(sides | "writing" >> STREAM_JOINS[join](writing), sides | "pure" >> STREAM_JOINS[join](pure))


def test_a_joiner_of_streams_may_write_into_its_arguments(direct):
    with direct() as p:
        sides = stream(p, "orders", [*ORDERS, {**ORDERS[0], "id": None}]), stream(p, "customers", CUSTOMERS)
        joins = (
            name >> WindowedStreamJoin(joiner, how="outer", before=5, after=5, grace=0)
            for name, joiner in (("writing", writing), ("pure", pure))
        )
        same(*(sides | join for join in joins))


def test_a_joiner_of_streams_in_columns_may_write_into_its_arguments(direct):
    with direct() as p:
        orders = p | "o" >> beam.Create([pa.Table.from_pylist(ORDERS)]).with_output_types(pa.Table)
        customers = p | "c" >> beam.Create([pa.Table.from_pylist(CUSTOMERS)]).with_output_types(pa.Table)
        options = {"key": "id", "timestamp_by": "lsn", "before": 1, "after": 1, "grace": 0, "schema": JOINED}
        joined = [
            (orders, customers)
            | name >> WindowedStreamJoin(named(joiner), **options)
            | f"{name} rows" >> beam.FlatMap(lambda batch: batch.to_pylist())
            for name, joiner in (("writing", writing), ("pure", pure))
        ]
        same(*joined)


OTHERS = {
    "filter": (
        lambda: FilterTable(lambda key, value: marked(value)["seen"] == 1 and len(value["tags"]) == 2),
        lambda: FilterTable(lambda key, value: len(value["tags"]) == 1),
    ),
    "map": (lambda: MapTable(writing), lambda: MapTable(pure)),
    "group_by": (lambda: CountTable(group_by=removing("by")), lambda: CountTable(group_by="by")),
    "aggregate": (
        lambda: AggregateTable(group_by="by", initial=lambda: {"tags": []}, add=added, subtract=added),
        lambda: AggregateTable(group_by="by", initial=lambda: {"tags": []}, add=added_anew, subtract=added_anew),
    ),
    "foreign_key": (
        lambda: with_itself(lambda: ForeignKeyJoin(pure, foreign_key=removing("by"), how="left")),
        lambda: with_itself(lambda: ForeignKeyJoin(pure, foreign_key="by", how="left")),
    ),
    "foreign_keys": (
        lambda: with_itself(lambda: ForeignKeyJoin(pure, foreign_keys=lambda key, value: [value.pop("by")])),
        lambda: with_itself(lambda: ForeignKeyJoin(pure, foreign_keys=lambda key, value: [value["by"]])),
    ),
}


def with_itself(join):
    class Both(beam.PTransform):
        def expand(self, pcoll):
            return (pcoll, pcoll) | join()

    return Both()


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("option", OTHERS)
@pytest.mark.each_value
def test_other_functions_of_a_table_may_write_into_their_arguments(direct, option, form):
    one, other = OTHERS[option]
    with direct() as p:
        orders = table(p, "orders", ORDERS, form)
        same(orders | "writing" >> one(), orders | "pure" >> other())


@pytest.mark.parametrize("form", ["records", "columns"])
def test_functions_of_a_changelog_may_write_into_the_record(direct, form):
    options = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn", "apply_as_deletes": "gone"}
    with direct() as p:
        same(
            table(p, "writing", CUSTOMERS, form, **{option: removing(name) for option, name in options.items()}),
            table(p, "reading", CUSTOMERS, form, **{option: plan(name) for option, name in options.items()}),
        )


def test_functions_of_windowed_aggregates_may_write_into_their_arguments(direct):
    with direct() as p:
        orders = stream(p, "orders", ORDERS)
        options = {"initial": lambda: {"tags": []}, "window_fn": FixedWindows(100)}
        one = orders | "writing" >> WindowedAggregate(add=added, sequence_by=removing("lsn"), **options)
        same(one, orders | "pure" >> WindowedAggregate(add=added_anew, sequence_by="lsn", **options))
        pairs = [
            one | name >> WindowedTableToStream(lambda key, window, value, joiner=joiner: (key, joiner(value)))
            for name, joiner in (("to stream, writing", writing), ("to stream, pure", pure))
        ]
        texts = [pair | f"text {i}" >> beam.Map(repr) for i, pair in enumerate(pairs)]
        same_texts(*texts)


def same_texts(one, other):
    counted = [side | f"count {i}" >> beam.combiners.Count.PerElement() for i, side in enumerate((one, other))]
    both = counted | "together" >> beam.Flatten() | "twice" >> beam.combiners.Count.PerElement() | "how often" >> beam.Values()
    assert_that(both | "distinct" >> beam.Distinct(), equal_to([2]), label="same texts")
