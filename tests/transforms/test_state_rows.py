"""The rows of a state are those of the tables that its transforms hold, whatever their keys and values are."""

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_joins import (
    CorruptData,
    CountTable,
    ForeignKeyJoin,
    LatestTable,
    StateFolder,
    StateRefused,
    TableFromChangelog,
    WindowedAggregate,
)
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions


def run(folder, build):
    options = ReplayOptions(beam_joins_state=str(folder), beam_joins_partitions=3)
    with beam.Pipeline(options=options) as pipeline:
        build(pipeline)


def rows(folder, transform, keys=None):
    """The rows by the stage and the table that they are in."""
    found = {}
    for stored in StateFolder.rows(str(folder), transform, keys=keys):
        found.setdefault(f"{stored.label}, {stored.name}", []).extend(stored.to_pylist())
    return found


def changelog(*records, key="id", schema=None):
    def build(pipeline):
        table = pipeline | beam.Create(records) | TableFromChangelog(key=key, sequence_by="lsn", schema=schema)
        _ = table | LatestTable() | beam.Map(lambda row: row)

    return build


def orders(*numbers, lsn=0):
    return [{"id": n, "customer": n % 3, "lsn": lsn + n} for n in numbers]


def test_all_rows_of_each_partition_are_given_and_those_of_keys_alone(tmp_path):
    run(tmp_path, changelog(*orders(*range(50))))
    held = rows(tmp_path, "TableFromChangelog")["TableFromChangelog/Replay, rows"]
    assert sorted((row["key"], row["value"]["customer"], row["position"]) for row in held) == [(n, n % 3, n) for n in range(50)]
    for keys, positions in (([7], [7]), ([7, 40, 999], [7, 40]), ((), []), (["7"], []), ([7.0], [7])):
        held = rows(tmp_path, "TableFromChangelog", keys)
        assert sorted(row["position"] for each in held.values() for row in each) == positions


def test_a_row_is_as_the_last_run_has_left_it_also_where_its_type_has_become_wider(tmp_path):
    for kind, records in ((pa.int32(), orders(1, 2, 3)), (pa.int64(), [{"id": 2, "customer": 2**40, "lsn": 9}])):
        batch = pa.RecordBatch.from_pylist(records, schema=pa.schema({"id": pa.int64(), "customer": kind, "lsn": pa.int64()}))
        run(tmp_path, changelog(batch, schema=batch.schema))
    held = rows(tmp_path, "TableFromChangelog")["TableFromChangelog/Replay, rows"]
    assert {row["key"]: row["value"]["customer"] for row in held} == {1: 1, 2: 2**40, 3: 0}
    (row,) = rows(tmp_path, "TableFromChangelog", [2])["TableFromChangelog/Replay, rows"]
    assert (row["value"]["customer"], row["position"]) == (2**40, 9)


def test_a_key_of_several_columns_is_named_by_a_tuple_or_by_its_columns(tmp_path):
    schema = pa.schema({"region": pa.string(), "id": pa.int64(), "lsn": pa.int64()})
    records = [{"region": region, "id": n, "lsn": n} for region in ("eu", "us") for n in range(5)]
    run(tmp_path, changelog(pa.RecordBatch.from_pylist(records, schema=schema), key=["region", "id"], schema=schema))
    for key in (("eu", 3), {"region": "eu", "id": 3}):
        (held,) = rows(tmp_path, "TableFromChangelog", [key]).values()
        assert [row["value"] for row in held] == [{"region": "eu", "id": 3, "lsn": 3}]


def test_both_sides_of_a_join_and_the_members_of_groups_have_names(tmp_path):
    def build(pipeline):
        left = pipeline | "o" >> beam.Create(orders(*range(9))) | "Orders" >> TableFromChangelog(key="id", sequence_by="lsn")
        customers = [{"id": n, "lsn": n} for n in range(3)]
        right = pipeline | "c" >> beam.Create(customers) | "Customers" >> TableFromChangelog(key="id", sequence_by="lsn")
        joined = (left, right) | ForeignKeyJoin(lambda order, customer: order, foreign_key=lambda key, order: order["customer"])
        _ = joined | CountTable(group_by=lambda key, order: order["customer"])

    run(tmp_path, build)
    held = rows(tmp_path, "ForeignKeyJoin", [2])
    assert {name.rpartition(", ")[2]: [row["position"] for row in each] for name, each in held.items()} == {"left": [2], "right": [2]}
    (groups,) = rows(tmp_path, "CountTable", [2]).values()
    assert [(row["group"], row["aggregate"]) for row in groups] == [(2, 3)]


def test_windows_are_those_of_the_key_within(tmp_path):
    def build(pipeline):
        stream = pipeline | beam.Create([TimestampedValue((key, n), n) for n in range(4) for key in "ab"])
        _ = stream | WindowedAggregate(FixedWindows(2), initial=0, add=lambda total, value: total + value)

    run(tmp_path, build)
    held = rows(tmp_path, "WindowedAggregate", ["a"])
    assert sum(len(each) for name, each in held.items() if name.endswith(", windows")) == 2


def test_a_label_that_is_not_there_a_text_for_keys_and_a_damaged_file_are_refused(tmp_path):
    run(tmp_path, changelog(*orders(1)))
    with pytest.raises(StateRefused, match="has no transform 'Table': it has TableFromChangelog, LatestTable"):
        StateFolder.rows(str(tmp_path), "Table")
    with pytest.raises(ValueError, match="keys='1': give a list of keys"):
        StateFolder.rows(str(tmp_path), "TableFromChangelog", keys="1")
    with pytest.raises(StateRefused, match="has no state"):
        StateFolder.rows(str(tmp_path / "nothing"), "TableFromChangelog")
    for path in tmp_path.rglob("*.arrow"):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(CorruptData, match="its checksum is another"):
        rows(tmp_path, "TableFromChangelog")
