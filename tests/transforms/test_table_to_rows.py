"""Tables as rows with a Beam schema, and tables made of such rows."""

import dataclasses
import datetime as dt
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders import RowCoder, registry
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.typehints.schemas import schema_from_element_type
from apache_beam.utils.timestamp import Timestamp

from beam_joins import ForeignKeyJoin, LatestTable, TableFromChangelog, TableToChanges, TableToRows


class Order(NamedTuple):
    id: int
    customer: str
    amount: float
    at: Timestamp


class Loose(NamedTuple):
    id: int
    value: Any


@dataclasses.dataclass
class Customer:
    id: str
    name: str


registry.register_coder(Customer, RowCoder)
ORDERS = [Order(1, "a", 2.5, Timestamp(5)), Order(2, "b", 3.0, Timestamp(6)), Order(1, "a", 4.0, Timestamp(7))]
INNER = pa.struct([("n", pa.int8()), ("more", pa.list_(pa.struct([("x", pa.int64())])))])
ROWS = pa.table({"id": [1, 2, 1], "name": ["Ann", "Bob", "Eve"], "gone": [False, False, True], "lsn": [7, 8, 9]})


def table_of(pipeline: beam.Pipeline, rows: pa.Table = ROWS, **options: Any) -> Any:
    options = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn", **options}
    return pipeline | beam.Create([rows]) | TableFromChangelog(**options)


def test_final_rows_changes_and_upserts_have_named_columns(direct) -> None:
    with direct() as p:
        table = table_of(p, apply_as_deletes="gone", except_columns=["gone", "lsn"])
        ann, bob = ({"id": n, "name": name} for n, name in ((1, "Ann"), (2, "Bob")))
        made = {
            "rows": [bob],
            "changes": [
                {"old": None, "new": beam.Row(**ann), "timestamp": 7, "position": 7},
                {"old": None, "new": beam.Row(**bob), "timestamp": 8, "position": 8},
                {"old": beam.Row(**ann), "new": None, "timestamp": 9, "position": 9},
            ],
            "upserts": [
                ann | {"timestamp": 7, "position": 7, "deleted": False},
                bob | {"timestamp": 8, "position": 8, "deleted": False},
                {"id": 1, "name": None, "timestamp": 9, "position": 9, "deleted": True},
            ],
        }
        for records, rows in made.items():
            given = table | records >> TableToRows(records=records, key="id")  # type: ignore[arg-type]
            assert_that(given, equal_to([beam.Row(**row) for row in rows]), label=f"as {records}")
            names = [field.name for field in schema_from_element_type(given.element_type).fields]
            assert names == list(rows[0])


def test_each_row_has_the_event_time_of_its_change(direct) -> None:
    with direct() as p:
        at = pa.array([7_000, 8_000, 9_000])
        table = table_of(p, ROWS.set_column(3, "lsn", at), apply_as_deletes="gone")
        for records, times in (("rows", [8]), ("changes", [7, 8, 9])):
            rows = table | records >> TableToRows(records=records, key="id")  # type: ignore[arg-type]
            timed = rows | f"{records} timed" >> beam.Map(lambda _, time=beam.DoFn.TimestampParam: time.micros // 1000)
            assert_that(timed, equal_to(times), label=f"times of {records}")


def test_columns_of_each_type_are_fields_that_hold_their_values(direct) -> None:
    values = {
        "small": (pa.uint8(), 200, 200),
        "wide": (pa.uint32(), 2**32 - 1, 2**32 - 1),
        "number": (pa.int64(), -(2**63), -(2**63)),
        "half": (pa.float16(), 0.5, 0.5),
        "truth": (pa.bool_(), True, True),
        "text": (pa.large_string(), "ä", "ä"),
        "content": (pa.binary(), b"\x00\xff", b"\x00\xff"),
        "price": (pa.decimal128(9, 2), Decimal("7.50"), Decimal("7.50")),
        "at": (pa.timestamp("ms", "UTC"), dt.datetime(2026, 1, 2, tzinfo=dt.UTC), Timestamp.from_rfc3339("2026-01-02T00:00:00Z")),
        "local": (pa.timestamp("us"), dt.datetime(1969, 1, 2, 3, 4, 5, 6), Timestamp.from_rfc3339("1969-01-02T03:04:05.000006Z")),
        "tags": (pa.list_(pa.string()), ["a", None], ["a", None]),
        "inner": (
            pa.struct([("n", pa.int8()), ("more", pa.list_(pa.struct([("x", pa.int64())])))]),
            {"n": 1, "more": [{"x": 2}]},
            None,
        ),
    }
    columns = {name: pa.array([value, None], kind) for name, (kind, value, _) in values.items()}
    columns["number"] = pa.array([values["number"][1], 5])
    expected = {name: made for name, (_, _, made) in values.items()} | {"inner": beam.Row(n=1, more=[beam.Row(x=2)])}
    with direct() as p:
        rows = table_of(p, pa.table(columns), key="number", sequence_by="number", timestamp_by="number") | TableToRows(key="number")
        nothing = dict.fromkeys(values) | {"number": 5}
        of_first = ["number", *(name for name in values if name != "number")]
        in_order = [beam.Row(**{name: row[name] for name in of_first}) for row in (expected, nothing)]
        assert_that(rows, equal_to(in_order))
        decoded = rows | "Other stage" >> beam.Reshuffle() | beam.Map(lambda row: (row.at, row.price, row.inner and row.inner.n))
        assert_that(decoded, equal_to([(expected["at"], Decimal("7.50"), 1), (None, None, None)]), label="decoded")


def test_uuids_are_text(direct) -> None:
    each = uuid.UUID(int=7)
    with direct() as p:
        rows = table_of(p, pa.table({"id": [1], "of": pa.array([each.bytes], pa.uuid()), "lsn": [1]}), except_columns=["lsn"])
        assert_that(rows | TableToRows(key="id"), equal_to([beam.Row(id=1, of=str(each))]))


@pytest.mark.parametrize(
    ("column", "kind", "options", "message"),
    [
        ("Order No", pa.int64(), {}, "'Order No' is no name of a field of a Beam row"),
        ("class", pa.int64(), {}, "'class' is no name of a field"),
        ("span", pa.duration("us"), {}, r"'span' is of the type duration\[us\]"),
        ("timestamp", pa.int64(), {"records": "upserts"}, "the table has a column 'timestamp', as the change itself"),
        ("n", pa.int64(), {"key": ["a", "b"]}, "names 2 columns, and the key has 1"),
    ],
)
def test_columns_that_no_row_has_are_refused_when_the_pipeline_is_built(column, kind, options, message) -> None:
    rows = pa.table({"id": pa.array([1]), column: pa.nulls(1, kind), "lsn": [1]})
    with pytest.raises(ValueError, match=message):
        table_of(beam.Pipeline(), rows) | TableToRows(**options)


def test_tables_of_python_objects_and_other_records_are_refused() -> None:
    table = beam.Pipeline() | beam.Create([{"id": 1, "lsn": 1}]) | TableFromChangelog(key="id", sequence_by="lsn")
    with pytest.raises(ValueError, match=r"TableToRows writes typed columns.*schema="):
        table | TableToRows()
    with pytest.raises(ValueError, match="records='latest': choose one of 'rows', 'changes', 'upserts'"):
        TableToRows(records="latest")  # type: ignore[arg-type]


def test_named_tuples_dataclasses_and_beam_rows_make_typed_tables_without_a_schema(direct) -> None:
    with direct() as p:
        orders = p | "orders" >> beam.Create(ORDERS) | "of orders" >> TableFromChangelog(key="id", timestamp_by="at")
        people = [Customer("a", "Ann"), Customer("b", "Bob")]
        customers = p | "customers" >> beam.Create(people).with_output_types(Customer)
        by_id = customers | "of customers" >> TableFromChangelog(key="id", timestamp_by=lambda _: 1)
        cities = p | "cities" >> beam.Create([beam.Row(id="a", city="Rome", at=2)])
        of_cities = cities | "of cities" >> TableFromChangelog(key="id", timestamp_by="at", except_columns=["at"])
        joined = (orders, by_id) | ForeignKeyJoin({"amount": "left.amount", "name": "right.name"}, foreign_key="customer")
        assert_that(
            joined | TableToRows(), equal_to([beam.Row(key=1, amount=4.0, name="Ann"), beam.Row(key=2, amount=3.0, name="Bob")])
        )
        assert_that(of_cities | "c" >> TableToRows(key="id"), equal_to([beam.Row(id="a", city="Rome")]), label="cities")


def test_a_table_is_of_python_objects_where_its_schema_is_none_or_has_types_that_no_column_has(direct) -> None:
    with direct() as p:
        opaque = p | "orders" >> beam.Create(ORDERS) | TableFromChangelog(key="id", timestamp_by="at", schema=None)
        assert_that(opaque | LatestTable(), equal_to([(2, ORDERS[1]), (1, ORDERS[2])]))
        loose = p | beam.Create([Loose(1, {"a"})]) | "loose" >> TableFromChangelog(key="id", sequence_by="id", timestamp_by="id")
        changes = loose | TableToChanges() | beam.Map(lambda change: change.new.value)
        assert_that(changes, equal_to([{"a"}]), label="loose")
