"""What is known of a table stays behind steps of users' own, or its loss is told."""

import logging
import pickle
import uuid

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders import VarIntCoder, registry
from apache_beam.internal import pickler
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    Change,
    CountTable,
    ForeignKeyJoin,
    LatestTable,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    TableToRows,
    TableToStream,
    Window,
    Windowed,
    WindowedTableToStream,
    as_windowed_table,
    begins_anew,
)
from beam_joins.coders import ChangeCoder, WindowedCoder
from beam_joins.transforms.engine.construction.table_type import (
    Physical,
    as_table,
    at_first_position,
    is_batches,
    is_changes,
    physical_of,
    table_type,
)
from beam_joins.transforms.engine.stages.incoming_tables import in_batches

STEPS = {
    "a Map that gives what it gets": lambda p, table: table | beam.Map(lambda element: element),
    "a Map with types": lambda p, table: table | beam.Map(again).with_output_types(table.element_type),
    "Reshuffle": lambda p, table: table | beam.Reshuffle(),
    "Flatten": lambda p, table: (table, table | "none" >> beam.Filter(lambda _: False)) | beam.Flatten(),
    "Flatten of two types": lambda p, table: (table,
        p | "none" >> changelog(rows=[]) | "tn" >> TableFromChangelog(**CDC) | as_changes(table)) | beam.Flatten(),
}  # fmt: skip
CDC = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn"}
ROWS = [{"id": "a", "lsn": 1}, {"id": "b", "lsn": 2}, {"id": "a", "lsn": 3}]


def again(element):
    """Nothing says what comes out of it."""
    return pickle.loads(pickle.dumps(element))


def changelog(rows=ROWS):
    return beam.Create(rows)


def as_changes(table):
    return "other changes" >> TableToChanges() if is_changes(table) else "as it is" >> beam.Filter(lambda _: True)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("one_by_one", [False, True], ids=["batches", "changes"])
@pytest.mark.each_value
def test_the_order_of_a_table_stays_and_rows_are_checked_again(direct, step, one_by_one):
    with direct() as p:
        table = p | changelog() | TableFromChangelog(**CDC)
        if one_by_one:
            table = table | TableToChanges()
        behind = STEPS[step](p, table)
        assert (table_type(behind).order, physical_of(behind)) == ("sequence", Physical())
        assert is_changes(behind) is one_by_one
        assert is_batches(behind) is not one_by_one
        assert_that(behind | LatestTable() | beam.Map(lambda row: row[1]["lsn"]), equal_to([2, 3]))


@pytest.mark.parametrize("step", STEPS)
def test_two_changes_of_a_row_at_one_position_are_found_behind_a_flatten(direct, step):
    with pytest.raises(Exception, match="two changes of key 'a' at position 1"), direct() as p:
        table = p | changelog(ROWS[:1]) | TableFromChangelog(**CDC)
        _ = (table, STEPS[step](p, table)) | "twice" >> beam.Flatten() | LatestTable()


@pytest.mark.parametrize("one_by_one", [False, True], ids=["batches", "changes"])
def test_tables_ordered_by_different_things_are_refused_behind_a_shuffle(direct, one_by_one):
    p = direct()
    by_sequence = p | changelog() | "by sequence" >> TableFromChangelog(**CDC)
    by_time = p | "log" >> changelog() | "by time" >> TableFromChangelog(key="id", timestamp_by="lsn")
    if one_by_one:
        by_sequence = by_sequence | TableToChanges()
    with pytest.raises(ValueError, match="TableTableJoin joins a table ordered by a sequence with one ordered by event time"):
        _ = (by_sequence | beam.Reshuffle(), by_time) | TableTableJoin(lambda left, right: left)


@pytest.mark.parametrize(
    "build", [lambda both, one: (both, one) | TableTableJoin(lambda x, y: x), lambda both, one: both | CountTable(group_by="id")]
)
def test_a_flatten_of_tables_of_two_kinds_of_order_is_refused(direct, build):
    with pytest.raises(ValueError, match="ordered by a sequence .* by event time .*behind a Flatten.*"), direct() as p:
        rows = p | "rows" >> beam.Create([{"id": 1, "lsn": 5, "ts": 100}])
        one = rows | "one" >> TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="ts")
        other = rows | "other" >> TableFromChangelog(key="id", timestamp_by="ts")
        build((one, other) | beam.Flatten(), one)


@pytest.mark.parametrize("order", ["sequence", "time", "first"])
def test_a_table_at_the_first_position_has_no_order_of_its_own(direct, order, caplog):
    with direct() as p:
        none = p | "none" >> beam.Create([{"id": "c"}]) | "first" >> TableFromChangelog(key="id")
        options = {"sequence": CDC, "time": {"key": "id", "timestamp_by": "lsn"}, "first": {"key": "id", "timestamp_by": "lsn"}}
        other = p | changelog() | TableFromChangelog(**options[order])
        first, other = at_first_position(none), at_first_position(other) if order == "first" else other
        joined = (other, first) | TableTableJoin(lambda left, right: (left, right), how="outer")
        flattened = (first, other) | beam.Flatten()
        assert table_type(joined).order == table_type(flattened).order == order
        assert_that(flattened | LatestTable() | beam.Keys(), equal_to(["a", "b", "c"]))
    assert "cannot check" not in caplog.text


def test_a_loss_is_told_where_it_matters(direct, caplog):
    p = direct()
    table = p | changelog() | TableFromChangelog(**CDC)
    forgotten = table | TableToChanges() | beam.Map(again)
    with caplog.at_level(logging.WARNING):
        _ = (table, table) | "known" >> TableTableJoin(lambda left, right: left)
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        _ = (table, forgotten) | "forgotten" >> TableTableJoin(lambda left, right: left)
    (told,) = caplog.messages
    assert "TableTableJoin cannot check that its tables are ordered by the same" in told
    assert ".with_output_types(table.element_type)" in told


def test_a_windowed_table_of_changes_is_declared_by_its_type(direct):
    key = Windowed("home", Window(0, 7))
    with direct() as p:
        created = p | beam.Create([Change(key, None, 1, 3, 3)])
        typed = created | beam.Map(again).with_output_types(Change[Windowed[str], int])
        assert (table_type(typed).key, table_type(typed).value, table_type(typed).windowed) == (str, int, True)
        assert as_windowed_table(typed) is typed
        assert_that(typed | LatestTable(), equal_to([(key, 1)]))


def test_types_of_arrow_columns_stay_behind_a_shuffle_and_two_that_differ_become_python_objects(direct):
    with direct() as p:
        logs = [pa.table({"id": [1], "lsn": [1]}), pa.table({"id": ["a"], "lsn": [2]})]
        tables = [p | f"log {i}" >> beam.Create([log]) | f"table {i}" >> TableFromChangelog(**CDC) for i, log in enumerate(logs)]
        shuffled = tables[0] | beam.Reshuffle()
        assert (table_type(shuffled).key, table_type(shuffled).is_typed) == (pa.int64(), True)
        together = tables | beam.Flatten()
        assert not table_type(in_batches(together)).is_typed
        assert_that(together | LatestTable() | beam.Keys(), equal_to([1, "a"]))


def test_a_batch_that_is_not_of_the_columns_that_its_type_says_is_refused(direct):
    with pytest.raises(Exception, match="is known to have columns of type int64, and has opaque ones"), direct() as p:
        typed = p | "typed" >> beam.Create([pa.table({"id": [1], "lsn": [1]})]) | "typed table" >> TableFromChangelog(**CDC)
        objects = p | changelog() | TableFromChangelog(**CDC)
        _ = objects | beam.Map(again).with_output_types(typed.element_type) | LatestTable()


def test_keys_come_back_in_the_form_of_their_declared_type(direct):
    with direct() as p:
        pairs = p | beam.Create([(7.0, "x")]).with_output_types(tuple[float, str])
        changes = pairs | TableFromChangelog() | TableToChanges()
        assert changes.element_type.parameters == (float, str)
        assert_that(changes | beam.Map(lambda change: repr(change.key)), equal_to(["7.0"]))


def test_a_type_with_parameters_is_one_class_wherever_it_is_pickled():
    typed = Change[int, str]
    assert typed is Change[int, str]
    assert typed is not Change[int, int]
    assert Change[uuid.UUID, int].__qualname__ == "Change[UUID, int]", "where no other type has its name"
    for module in (pickle, pickler):
        assert module.loads(module.dumps(typed)) is typed
    change = Change(1, None, "a", 0, 0)
    assert type(change) is Change
    assert isinstance(change, typed)
    assert not isinstance((1, None, "a", 0, 0), typed)


@pytest.mark.parametrize(
    ("inputs", "wanted", "fits"),
    [
        (Change[bool, str], Change[int, str], True),
        (Change, Change[int, str], True),
        (Change[int, str], Change, True),
        (Change[str, str], Change[int, str], False),
        (tuple, Change[int, str], False),
    ],
)
def test_a_step_takes_changes_whose_types_fit(direct, inputs, wanted, fits):
    assert issubclass(inputs, wanted) is fits
    step = beam.Map(again).with_input_types(wanted)
    created = direct() | beam.Create([]).with_output_types(inputs)
    if fits:
        _ = created | step
    else:
        with pytest.raises(beam.typehints.decorators.TypeCheckError):
            _ = created | step


def test_changes_are_written_with_the_coders_of_their_parts():
    coder = registry.get_coder(Change[int, str])
    assert isinstance(coder, ChangeCoder)
    assert coder.decode(coder.encode(Change(1, None, "a", 5, 7))) == Change(1, None, "a", 5, 7)
    assert isinstance(coder._key_coder, VarIntCoder)
    windowed = registry.get_coder(Change[Windowed[str], int])._key_coder
    assert isinstance(windowed, WindowedCoder)
    assert windowed.is_deterministic()


def test_a_join_of_typed_changes_is_one_of_typed_columns_where_a_schema_is_declared(direct):
    schema = pa.schema([("id", pa.string()), ("lsn", pa.int64())])
    with direct() as p:
        table = p | changelog() | TableFromChangelog(**CDC, schema=schema)
        assert table_type(table).is_typed
        joined = (table, table) | ForeignKeyJoin({"n": "right.lsn"}, foreign_key="id")
        assert table_type(joined).value == pa.struct([("n", pa.int64())])
        rows = joined | LatestTable() | beam.FlatMap(lambda batch: batch["value"].to_pylist())
        assert_that(rows, equal_to([{"n": 2}, {"n": 3}]))


def begun_anew(table, position=7):
    return as_table(table, table_type(table)._replace(anew=position), physical_of(table))


TO_OTHERS = {
    "changes": TableToChanges,
    "stream": TableToStream,
    "rows of changes": lambda: TableToRows(records="changes"),
    "rows of upserts": lambda: TableToRows(records="upserts"),
}


@pytest.mark.parametrize("name", TO_OTHERS)
def test_a_transform_that_has_no_word_for_void_rows_warns_of_them_once_with_its_label(caplog, name):
    log = beam.Pipeline() | beam.Create([pa.table({"id": [1], "lsn": [1]})]).with_output_types(pa.Table)
    table = log | TableFromChangelog(**CDC)
    with caplog.at_level(logging.WARNING):
        _ = table | "goes on" >> TO_OTHERS[name]()
        assert not caplog.messages
        _ = begun_anew(table) | "outwards" >> TO_OTHERS[name]()
    assert caplog.messages == [
        "outwards: the table begins anew at position 7: rows that earlier runs gave, and that this run does not give again, are void"
    ]


def test_a_stream_of_a_windowed_table_warns_of_void_rows_too_and_final_rows_need_no_warning(caplog):
    pipeline = beam.Pipeline()
    counts = pipeline | beam.Create([Change(Windowed("a", Window(0, 9)), None, 1, 1, 1)])
    log = pipeline | "log" >> beam.Create([pa.table({"id": [1], "lsn": [1]})]).with_output_types(pa.Table)
    table = begun_anew(log | TableFromChangelog(**CDC))
    with caplog.at_level(logging.WARNING):
        _ = table | "latest" >> LatestTable()
        _ = table | "rows" >> TableToRows()
        _ = begun_anew(counts) | "counts" >> WindowedTableToStream(lambda key, window, count: (key, count))
    assert [message.partition(":")[0] for message in caplog.messages] == ["counts"]


def test_a_sink_of_ones_own_may_ask_whether_a_table_begins_anew_also_behind_steps_of_other_libraries():
    table = begun_anew(beam.Pipeline() | changelog() | TableFromChangelog(**CDC), -3)
    kept = table | "kept" >> beam.Map(again).with_output_types(table.element_type)
    mapped = table | "mapped" >> beam.Map(again) | "mapped again" >> beam.Map(again)
    changes = kept | TableToChanges() | beam.Reshuffle()
    assert [begins_anew(each) for each in (table, kept, changes, mapped)] == [-3, -3, -3, -3]
    goes_on = beam.Pipeline() | beam.Create([Change(1, None, 2, 3, 4)]) | beam.Map(again)
    assert begins_anew(goes_on) is None
    with pytest.raises(ValueError, match="begins_anew takes a table, not int"):
        begins_anew(7)
