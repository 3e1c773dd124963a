"""Collections that are no tables, with two changes of one row at one position, are refused in one sentence by
all that remembers rows.
"""

from datetime import timedelta

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    AggregateTable,
    Change,
    ChangeBatch,
    CountTable,
    ForeignKeyJoin,
    LatestTable,
    OneToManyJoin,
    ReduceTable,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    Window,
    Windowed,
    WindowedTableJoin,
    as_windowed_table,
)
from beam_joins.transforms.engine.construction.table_type import table_type

TWICE = [Change(1, None, "a", 0, 5), Change(1, None, "b", 0, 5)]
BACK = [Change(1, None, "a", 0, 5), Change(1, "a", None, 0, 5)]
ONCE = [Change("a", None, "A", 0, 1), Change("b", None, "B", 0, 1)]
SAME = [Change(1, None, "x", 0, 1)]
ROWS = [Change("l", None, 1, 0, 1)]
WEEK = Windowed("page", Window(0, 7))
WEEKS = [Change(WEEK, None, 1, 0, 5), Change(WEEK, None, 2, 0, 5)]
STREAM = [("s", 9), (1, 9)]


def value(key, value):
    return value


def pair(left, right):
    return (left, right)


def by_list():
    return ForeignKeyJoin(pair, foreign_keys=lambda key, value: [value])


def by_value(how):
    return ForeignKeyJoin(None if how in ("semi", "anti") else pair, foreign_key=value, how=how)


BY_POSITION = {"joiner": pair, "sequence_by": value}
SUM = {"group_by": value, "add": lambda total, row: total, "subtract": lambda total, row: total}

CASES = {
    "latest table": (lambda t: t(TWICE) | LatestTable()),
    "latest table, not the last position": (lambda t: t([*TWICE, Change(1, "b", "c", 0, 6)]) | LatestTable()),
    "count table": (lambda t: t(TWICE) | CountTable(group_by=lambda key, value: "all")),
    "count table by the value": (lambda t: t(TWICE) | CountTable(group_by=value)),
    "count table, inserted and deleted": (lambda t: t(BACK) | CountTable(group_by=value)),
    "aggregate table": (lambda t: t(TWICE) | AggregateTable(initial=0, **SUM)),
    "reduce table": (lambda t: t(TWICE) | ReduceTable(**SUM)),
    "stream-table join": (lambda t: (t(STREAM), t(TWICE)) | StreamTableJoin(**BY_POSITION)),
    "stream-foreign-key join": (lambda t: (t(STREAM), t(TWICE)) | StreamForeignKeyJoin(foreign_key=lambda k, v: 1, **BY_POSITION)),
    "one-to-many join, one": (lambda t: (t(TWICE), t(ROWS)) | OneToManyJoin(pair, foreign_key=value)),
    "one-to-many join, many": (lambda t: (t(ONCE), t(TWICE)) | OneToManyJoin(pair, foreign_key=value)),
    "foreign keys, left": (lambda t: (t(TWICE), t(ONCE)) | by_list()),
    "foreign keys, right": (lambda t: (t(ROWS), t(TWICE)) | by_list()),
    **{
        f"{how} foreign-key join, left": (lambda t, how=how: (t(TWICE), t(ONCE)) | by_value(how))
        for how in ("inner", "left", "right", "outer", "semi", "anti")
    },
    **{
        f"{how} foreign-key join, right": (lambda t, how=how: (t(ROWS), t(TWICE)) | by_value(how))
        for how in ("inner", "left", "right", "outer", "semi", "anti")
    },
    "table-table join, left": (lambda t: (t(TWICE), t(SAME)) | TableTableJoin(pair)),
    "table-table join, right": (lambda t: (t(SAME), t(TWICE)) | TableTableJoin(pair, how="outer")),
    "windowed table join, right": (lambda t: (as_windowed_table(t([])), t(TWICE)) | WindowedTableJoin(pair)),
}  # fmt: skip


def tables(p, order):
    def table(rows):
        name = f"rows {len(names)}"
        names.append(name)
        return p | name >> beam.Create(rows[::order], reshuffle=False)

    names = []
    return table


SENTENCE = "the table has two changes of key 1 at position 5: make it with TableFromChangelog, which keeps one"


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "reversed"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.each_value
def test_two_changes_of_a_row_at_one_position_are_refused(direct, case, order):
    with pytest.raises(Exception, match=SENTENCE), direct() as p:
        _ = CASES[case](tables(p, order))


def test_the_row_of_a_windowed_table_is_named(direct):
    with pytest.raises(Exception, match=r"two changes of key Windowed\(key='page', window=.* at position 5: make it"), direct() as p:
        weeks = as_windowed_table(p | beam.Create(WEEKS))
        _ = (weeks, weeks) | WindowedTableJoin(pair, shift=lambda week: week.shift(timedelta(days=7)))


def batch(new, before=(None, None)):
    return ChangeBatch(
        key=pa.array([1, 1]),
        new=pa.array(new),
        before=pa.array(before, pa.int64()),
        timestamp=pa.array([0, 0]),
        position=pa.array([5, 5]),
    )


OTHER = ChangeBatch(
    key=pa.array([1]), new=pa.array(["x"]), before=pa.array([None], pa.int64()), timestamp=pa.array([0]), position=pa.array([1])
)
IN_COLUMNS = {
    "latest table": (lambda p, t: t | LatestTable()),
    "count table": (lambda p, t: t | CountTable(group_by=value)),
    "foreign-key join, left": (lambda p, t: (t, p) | ForeignKeyJoin(pair, foreign_key=lambda key, value: 1)),
    "foreign-key join, right": (lambda p, t: (p, t) | ForeignKeyJoin(pair, foreign_key=lambda key, value: 1)),
    "outer foreign-key join": (lambda p, t: (t, p) | ForeignKeyJoin(pair, foreign_key=lambda key, value: 1, how="outer")),
    "table-table join": (lambda p, t: (p, t) | TableTableJoin(pair)),
    "stream-table join": (lambda p, t: (p.pipeline | "s" >> beam.Create([(1, 9)]), t) | StreamTableJoin(**BY_POSITION)),
}


@pytest.mark.parametrize("batches", ["one", "two"])
@pytest.mark.parametrize("case", IN_COLUMNS)
@pytest.mark.each_value
def test_tables_in_columns_that_are_none_are_refused_too(direct, case, batches):
    whole = batch(["a", "b"])
    cut = (
        [whole]
        if batches == "one"
        else [ChangeBatch(**{n: getattr(whole, n).slice(i, 1) for n in ChangeBatch.__slots__}) for i in (0, 1)]
    )
    with pytest.raises(Exception, match=SENTENCE), direct() as p:
        table = p | "table" >> beam.Create(cut).with_output_types(ChangeBatch)
        other = p | "other" >> beam.Create([OTHER]).with_output_types(ChangeBatch)
        _ = IN_COLUMNS[case](other, table)


def test_what_a_transform_of_ours_made_is_not_looked_at_again(direct):
    def labels(p):
        seen = []
        p.visit(
            type("Labels", (beam.pipeline.PipelineVisitor,), {"visit_transform": lambda self, node: seen.append(node.full_label)})()
        )
        return [label for label in seen if "with one change each" in label]

    with direct() as p:
        hand_made = p | "rows" >> beam.Create(ONCE)
        counts = hand_made | CountTable(group_by=value)
        assert labels(p)
        assert table_type(counts).order == "unknown"
        assert_that(counts | TableToChanges() | beam.Map(lambda change: change[:3]), equal_to([("A", None, 1), ("B", None, 1)]))
    with direct() as p:
        _ = p | "log" >> beam.Create([("k", "v")]) | TableFromChangelog() | CountTable(group_by=value)
        assert labels(p) == []
