"""TableTableJoin, OneToManyJoin, the foreign-key joins that keep right rows, and the joins of windowed
tables.
"""

from datetime import timedelta

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    Change,
    CombinedKey,
    CountTable,
    Dropped,
    ForeignKeyJoin,
    LatestTable,
    MapTable,
    OneToManyJoin,
    StreamTableJoin,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    TableToRows,
    TableToStream,
    Window,
    Windowed,
    WindowedTableJoin,
    WindowedTableToStream,
    with_key,
)
from beam_joins.transforms.engine.blocks.block_writer import timestamped
from beam_joins.transforms.engine.construction.table_type import TableType, as_table


def table(p, label, rows):
    """A table of (key, value, position) rows; a None value deletes."""
    log = p | f"{label} log" >> beam.Create([{"key": key, "value": value, "at": at} for key, value, at in rows])
    changes = log | f"{label} table" >> TableFromChangelog(
        key="key", sequence_by="at", timestamp_by="at", apply_as_deletes=lambda row: row["value"] is None
    )
    return changes | f"{label} value" >> MapTable(lambda key, row: row["value"])


def windowed(p, label, rows):
    """A windowed table of weeks: (key, week, value, position)."""
    changes = [Change(Windowed(key, Window(7 * week, 7 * week + 7)), None, value, at, at) for key, week, value, at in rows]
    return as_table(p | label >> beam.Create(changes), TableType(str, order="time", windowed=True))


def pair(left, right):
    return f"{left or '-'}+{right or '-'}"


class Shown(beam.PTransform):
    """The changes of a table without their times."""

    def expand(self, table):
        return table | TableToChanges() | beam.Map(lambda change: (change.key, change.old, change.new, change.position))


def test_tables_are_joined_on_their_key_on_every_runner(pipeline):
    left = [("k", "A", 2), ("k", "B", 4), ("k", None, 6), ("only", "L", 1)]
    right = [("k", "a", 3), ("k", None, 5), ("k", "b", 7)]
    expected = {
        "inner": [("k", None, "A+a", 3), ("k", "A+a", "B+a", 4), ("k", "B+a", None, 5)],
        "left": [("only", None, "L+-", 1), ("k", None, "A+-", 2), ("k", "A+-", "A+a", 3), ("k", "A+a", "B+a", 4),
            ("k", "B+a", "B+-", 5),
                 ("k", "B+-", None, 6)],
        "outer": [("only", None, "L+-", 1), ("k", None, "A+-", 2), ("k", "A+-", "A+a", 3), ("k", "A+a", "B+a", 4),
            ("k", "B+a", "B+-", 5),
                  ("k", "B+-", None, 6), ("k", None, "-+b", 7)],
        "right": [("k", None, "A+a", 3), ("k", "A+a", "B+a", 4), ("k", "B+a", None, 5), ("k", None, "-+b", 7)],
        "semi": [("k", None, "A+-", 3), ("k", "A+-", "B+-", 4), ("k", "B+-", None, 5)],
        "anti": [("only", None, "L+-", 1), ("k", None, "A+-", 2), ("k", "A+-", None, 3), ("k", None, "B+-", 5), ("k", "B+-", None, 6)],
    }  # fmt: skip
    with pipeline() as p:
        both = table(p, "left", left), table(p, "right", right)
        for how, changes in expected.items():
            joined = both | how >> TableTableJoin(pair if how not in ("semi", "anti") else lambda left: pair(left, None), how=how)
            assert_that(joined | f"{how} shown" >> Shown(), equal_to(changes), label=f"is {how}")


def test_a_joiner_may_want_the_key(direct):
    with direct() as p:
        a, b = table(p, "a", [("k", "A", 1)]), table(p, "b", [("k", "B", 2)])
        joins = {"inner": TableTableJoin(with_key(lambda key, left, right: f"{key}: {left}{right}"))}
        joins["semi"] = TableTableJoin(with_key(lambda key, left: f"{key}: {left}"), how="semi")
        for label, expected in (("inner", "k: AB"), ("semi", "k: A")):
            joined = (a, b) | label >> joins[label] | f"{label} shown" >> Shown()
            assert_that(joined, equal_to([("k", None, expected, 2)]), label=f"{label} with key")


def test_three_tables_are_joined_in_a_chain_or_at_once(direct):
    three = lambda a, b, c: pair(pair(a, b) if a else None, c)  # noqa: E731
    with direct() as p:
        a, b, c = (table(p, name, [("k", name, at), ("l", name, 9 - at)]) for at, name in enumerate("abc"))
        expected = [("k", None, "a+b+-", 1), ("k", "a+b+-", "a+b+c", 2)]
        expected += [("l", None, "-+c", 7), ("l", "-+c", "a+b+c", 9)]
        chained = ((a, b) | "a b" >> TableTableJoin(pair), c) | "ab c" >> TableTableJoin(pair, how="outer")
        assert_that(chained | Shown(), equal_to(expected))
        at_once = TableTableJoin(three, tables=["a", "b", "c"], how=["inner", "outer"])
        for label, inputs in (("tuple", (a, b, c)), ("dict", {"c": c, "a": a, "b": b})):
            assert_that(inputs | label >> at_once | f"{label} shown" >> Shown(), equal_to(expected), label=label)


def test_columns_of_several_tables_are_named_by_the_tables(direct):
    names = ["a", "A", "dropped", "main"]
    rows = pa.table({"id": [1, 1, 2], "n": [5, 6, 7], "lsn": [1, 2, 3]})
    join = TableTableJoin(
        {"x": "a.n", "y": "A.n", "sum": pc.add(pc.field("a", "n"), pc.field("main", "n"))},
        tables=names,
        how=["left", "semi", "inner"],
    )
    with direct() as p:
        made = TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["id", "lsn"])
        logs = {name: p | name >> beam.Create([rows]).with_output_types(pa.Table) for name in names}
        tables = {name: log | f"{name} table" >> made for name, log in logs.items()}
        latest = tables | join | LatestTable() | beam.FlatMap(lambda batch: batch.select(["key", "value"]).to_pylist())
        expected = [{"key": key, "value": {"x": n, "y": n, "sum": 2 * n}} for key, n in ((1, 6), (2, 7))]
        assert_that(latest, equal_to(expected))


def test_jan_filipiaks_one_to_many_table_on_every_runner(pipeline):
    a = [("A0", "[A0]", 0), ("A1", "[A1]", 1), ("A2", "[A2]", 4), ("A2", None, 7)]
    b = [("B0", "A2,B0", 2), ("B1", "A2,B1", 3), ("B1", None, 5), ("B3", "A0,B3", 6)]
    rows = [
        ("A2", "B0", None, "[A2]+A2,B0", 4),
        ("A2", "B1", None, "[A2]+A2,B1", 4),
        ("A2", "B1", "[A2]+A2,B1", None, 5),
        ("A0", "B3", None, "[A0]+A0,B3", 6),
        ("A2", "B0", "[A2]+A2,B0", None, 7),
    ]
    with pipeline() as p:
        joined = (table(p, "a", a), table(p, "b", b)) | OneToManyJoin(pair, foreign_key=lambda key, value: value.split(",")[0])
        expected = [(CombinedKey(one, many), old, new, at) for one, many, old, new, at in rows]
        assert_that(joined | Shown(), equal_to(expected))


def test_a_row_whose_reference_moves_deletes_its_old_pair_and_one_without_is_dropped(direct):
    with direct() as p:
        one = table(p, "one", [("a", "A", 0), ("b", "B", 0)])
        many = table(p, "many", [("k", "a", 1), ("k", "b", 2), ("k", "", 3)])
        join = OneToManyJoin(
            pair,
            foreign_key=lambda key, value: value or None,
            key_mapper=lambda key: f"{key.primary_key}@{key.foreign_key}",
            key_inverse=lambda text: CombinedKey(*text.split("@")[::-1]),
        )
        outputs = (one, many) | join.with_outputs()
        moves = [("k@a", None, "A+a", 1), ("k@a", "A+a", None, 2), ("k@b", None, "B+b", 2), ("k@b", "B+b", None, 3)]
        assert_that(outputs.table | Shown(), equal_to(moves), label="moves")
        dropped = [Dropped("null_foreign_key", Change("k", "b", "", 3, 3), 3)]
        assert_that(outputs.dropped, equal_to(dropped), label="dropped")


def test_a_mapping_that_breaks_its_word_stops_the_run(direct):
    with pytest.raises(Exception, match="two pairs may get one key"), direct() as p:
        one, many = table(p, "one", [("a", "A", 0)]), table(p, "many", [("k", "a", 1)])
        mapping = {"key_mapper": lambda key: key.foreign_key, "key_inverse": lambda key: CombinedKey(key, None)}
        _ = (one, many) | OneToManyJoin(pair, foreign_key=lambda key, value: value, **mapping)


def test_a_one_to_many_join_can_keep_the_rows_of_either_side(direct):
    one, many = [("a", "A", 1), ("b", "B", 2)], [("k", "a", 3), ("l", "c", 4), ("m", "", 5)]
    pairs = [(CombinedKey("a", "k"), None, "A+a", 3)]
    of_one = [
        (CombinedKey("a", None), None, "A+-", 1),
        (CombinedKey("b", None), None, "B+-", 2),
        (CombinedKey("a", None), "A+-", None, 3),
    ]
    of_many = [(CombinedKey("c", "l"), None, "-+c", 4), (CombinedKey(None, "m"), None, "-+-", 5)]
    with direct() as p:
        both = table(p, "one", one), table(p, "many", many)
        for how, expected in {
            "inner": pairs,
            "left": pairs + of_one,
            "right": pairs + of_many,
            "outer": pairs + of_one + of_many,
        }.items():
            joined = both | how >> OneToManyJoin(pair, foreign_key=lambda key, value: value or None, how=how)
            assert_that(joined | f"{how} shown" >> Shown(), equal_to(expected), label=f"is {how}")


def test_a_foreign_key_join_can_keep_right_rows_and_left_rows_and_follow_lists_on_every_runner(pipeline):
    left = [("k", "a", 1), ("k", "b", 4), ("l", "", 5), ("m", "c", 6), ("k", None, 7)]
    right = [("a", "A", 2), ("b", "B", 3)]
    key = CombinedKey
    both_sides = [(key("a", None), None, "-+A", 4), (key("a", "k"), None, "a+A", 2), (key("a", "k"), "a+A", None, 4),
                  (key("b", None), None, "-+B", 3), (key("b", None), "-+B", None, 4), (key("b", "k"), None, "b+B", 4),
                  (key("b", "k"), "b+B", None, 7), (key("b", None), None, "-+B", 7)]  # fmt: skip
    kept_left = [(key("a", "k"), None, "a+-", 1), (key("a", "k"), "a+-", "a+A", 2), (key(None, "l"), None, "-+-", 5),
                 (key("c", "m"), None, "c+-", 6)]  # fmt: skip
    with pipeline() as p:
        both = table(p, "left", left), table(p, "right", right)
        right_join = both | "r" >> ForeignKeyJoin(pair, foreign_key=lambda key, value: value or None, how="right")
        assert_that(right_join | "r shown" >> Shown(), equal_to(both_sides), label="right")
        outer = both | "o" >> ForeignKeyJoin(pair, foreign_key=lambda key, value: value or None, how="outer")
        changed = [row for row in both_sides if row[:3] != (key("a", "k"), None, "a+A")] + kept_left
        assert_that(outer | "o shown" >> Shown(), equal_to(changed), label="outer")
        tagged = table(p, "tagged", [("x", "ab", 3), ("x", "bc", 5), ("y", "", 5)])
        many = (tagged, both[1]) | "m" >> ForeignKeyJoin(pair, foreign_keys=lambda key, value: list(value), how="left")
        rows = [(key("a", "x"), None, "ab+A", 3), (key("b", "x"), None, "ab+B", 3), (key("a", "x"), "ab+A", None, 5),
                (key("b", "x"), "ab+B", "bc+B", 5), (key("c", "x"), None, "bc+-", 5), (key(None, "y"), None, "-+-", 5)]  # fmt: skip
        assert_that(many | "m shown" >> Shown(), equal_to(rows), label="many to many")


@pytest.mark.parametrize(
    ("references", "complaint"),
    [("ab", "foreign_keys gave 'ab', one key and not a list"), (7, "foreign_keys gave 7, one key and not a list")],
)
def test_foreign_keys_that_are_no_list_stop_the_run(direct, references, complaint):
    with pytest.raises(Exception, match=complaint), direct() as p:
        both = table(p, "left", [("k", "a", 1)]), table(p, "right", [("a", "A", 2)])
        _ = both | ForeignKeyJoin(pair, foreign_keys=lambda key, value: references)


def test_a_row_without_a_list_of_foreign_keys_refers_to_nothing(direct):
    with direct() as p:
        both = table(p, "left", [("k", "a", 1)]), table(p, "right", [("a", "A", 2)])
        joined = both | ForeignKeyJoin(pair, foreign_keys=lambda key, value: None, how="left")
        assert_that(joined | Shown(), equal_to([(CombinedKey(None, "k"), None, "a+-", 1)]))


def test_windowed_tables_are_joined_in_every_way_on_every_runner(pipeline):
    key = lambda name, week: Windowed(name, Window(7 * week, 7 * week + 7))  # noqa: E731
    with pipeline() as p:
        views = windowed(p, "views", [("home", 0, 10, 1), ("home", 1, 20, 8), ("help", 1, 5, 9)])
        sales = windowed(p, "sales", [("home", 1, 2, 10)])
        pages = as_table(
            p | "pages" >> beam.Create([Change("home", None, "Home", 3, 3), Change("home", "Home", "Start", 12, 12)]),
            TableType(str, order="time"),
        )

        def check(label, joined, expected):
            assert_that(joined | f"{label} shown" >> Shown(), equal_to(expected), label=label)

        week_before = (views, views) | "shift" >> WindowedTableJoin(
            pair, how="left", shift=lambda week: week.shift(timedelta(microseconds=-7))
        )
        check("the week before", week_before, [
            (key("home", 0), None, "10+-", 1), (key("home", 1), None, "20+10", 8), (key("help", 1), None, "5+-", 9)])  # fmt: skip
        same = (views, sales) | "same" >> WindowedTableJoin(pair, how="outer")
        check("the same window", same, [
            (key("home", 0), None, "10+-", 1), (key("home", 1), None, "20+-", 8), (key("help", 1), None, "5+-", 9),
            (key("home", 1), "20+-", "20+2", 10)])  # fmt: skip
        again = (views, sales) | "same keys" >> TableTableJoin(pair)
        check("the same window by TableTableJoin", again, [(key("home", 1), None, "20+2", 10)])
        named = (views, pages) | "source" >> WindowedTableJoin(pair, how="inner")
        check("the row of the source key", named, [
            (key("home", 0), None, "10+Home", 3), (key("home", 1), None, "20+Home", 8),
            (key("home", 0), "10+Home", "10+Start", 12), (key("home", 1), "20+Home", "20+Start", 12)])  # fmt: skip
        first = (pages, views) | "window of" >> WindowedTableJoin(
            pair, how="left", window_of=lambda key, name: Window(0, 7) if name == "Home" else None
        )
        check("the window that a row names", first, [("home", None, "Home+10", 3), ("home", "Home+10", "Start+-", 12)])


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: TableTableJoin(pair, how="full"), "'inner', 'left', 'right', 'outer', 'semi', 'anti'"),
        (lambda: TableTableJoin("pair"), "joiner='pair'"),
        (TableTableJoin, "joiner=None"),
        (lambda: TableTableJoin(pair, tables=["a"]), "tables=.'a'.: give the names of two tables or more"),
        (lambda: TableTableJoin(pair, tables=["a", "b", "a"]), "each another one"),
        (lambda: TableTableJoin(pair, tables=["a", "b", "c"], how=["inner"]), "give one for all tables, or a list of 2"),
        (lambda: TableTableJoin(pair, tables=["a", "b", "c"], how=["inner", "full"]), "'full': choose one of"),
        (lambda: TableTableJoin({"x": "left.n"}, tables=["a", "b"]), 'give "a.<column>", "b.<column>"'),
        (lambda: TableTableJoin("pair", tables=["a", "b", "c"]), "a function of 3 values, of a, b, c"),
        (lambda: OneToManyJoin(pair, foreign_key="by", key_mapper=str), "give both or neither"),
        (lambda: OneToManyJoin(pair, foreign_key="by", how="semi"), "'inner', 'left', 'right', 'outer'"),
        (lambda: OneToManyJoin(pair, foreign_key=7), "foreign_key=7"),
        (lambda: OneToManyJoin(None, foreign_key="by"), "joiner=None"),
        (lambda: WindowedTableJoin(pair, how="right"), "'inner', 'left', 'outer'"),
        (lambda: WindowedTableJoin(pair, shift=str, window_of=str), "not both"),
        (lambda: WindowedTableJoin(pair, shift=7), "shift=7"),
        (lambda: WindowedTableJoin(pair, shift=str, how="outer"), "how='outer' joins the same window"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()


def test_a_collection_of_pairs_is_no_table(direct):
    p = direct()
    pairs = p | "pairs" >> beam.Create([("k", 1)])
    with pytest.raises(ValueError, match="make a table with TableFromChangelog"):
        _ = (pairs, pairs) | TableTableJoin(pair)


@pytest.mark.parametrize("elements", [[{"id": 1}], [beam.Row(id=1)], ["a"], [pa.table({"id": [1]})], [("a", 1)]], ids=repr)
@pytest.mark.parametrize(
    ("make", "takes"),
    [
        *((lambda each=each: each(pair, foreign_key="id"), 2) for each in (ForeignKeyJoin, OneToManyJoin)),
        *((lambda each=each: each(pair), 2) for each in (TableTableJoin, WindowedTableJoin)),
        *((lambda each=each: each(lambda *values: values), 1) for each in (MapTable, WindowedTableToStream)),
        *((each, 1) for each in (LatestTable, TableToChanges, TableToRows, TableToStream)),
        (lambda: CountTable(group_by="id"), 1),
    ],
)
def test_elements_that_are_no_changes_are_refused_when_the_pipeline_is_built(direct, make, takes, elements):
    p = direct()
    rows = p | beam.Create(elements)
    transform = make()
    with pytest.raises(
        ValueError, match=r": a table is a collection of Change, but has .*: make a table with .*ReadChangelog"
    ) as told:
        _ = ((table(p, "left", []), rows) if takes == 2 else rows) | transform
    which = "the right table, the output of 'Create', is none: " if takes == 2 else ""
    assert str(told.value).startswith(f"{type(transform).__name__}: {which}a table is")


@pytest.mark.parametrize(("wrong", "told"), [("a", "str"), (None, "NoneType")])
def test_what_is_no_collection_is_refused_by_its_type(direct, wrong, told):
    with pytest.raises(ValueError, match=f"TableTableJoin takes PCollections, not {told}"):
        _ = (wrong, table(direct(), "right", [])) | TableTableJoin(pair)
    with pytest.raises(ValueError, match=f"LatestTable takes PCollections, not {told}"):
        _ = wrong | LatestTable()


def test_a_pandas_frame_is_refused_with_what_makes_a_table_of_it(direct):
    frame = pytest.importorskip("pandas").DataFrame({"id": [1, 2], "lsn": [5, 6]})
    made = r"DataFrame: a table of a pandas frame is beam.Create\(\[pyarrow.Table.from_pandas\(frame\)\]\) \| TableFromChangelog"
    with pytest.raises(ValueError, match=made):
        _ = frame | LatestTable()
    with pytest.raises(ValueError, match=made):
        _ = {"left": frame, "right": table(direct(), "right", [])} | TableTableJoin(pair, tables=["left", "right"])
    with direct() as p:
        rows = p | beam.Create([pa.Table.from_pandas(frame)]) | TableFromChangelog(key="id", sequence_by="lsn") | TableToRows(key="id")
        assert_that(rows | beam.Map(lambda row: row.as_dict()), equal_to([{"id": 1, "lsn": 5}, {"id": 2, "lsn": 6}]))


def test_elements_that_are_no_pairs_are_no_stream(direct):
    p = direct()
    rows = p | beam.Create([{"id": 1}])
    with pytest.raises(ValueError, match=r"StreamTableJoin: a stream is of \(key, value\) pairs, but has Dict"):
        _ = (rows, table(p, "right", [])) | StreamTableJoin(pair)


def test_tables_that_do_not_fit_a_join_are_refused(direct):
    p = direct()
    views, pages = windowed(p, "views", []), as_table(p | "pages" >> beam.Create([]), TableType(int, order="time"))
    words = as_table(p | "words" >> beam.Create([]), TableType(str, order="time"))
    for label, tables, join, complaint in [
        ("a", (views, words), TableTableJoin(pair), "use WindowedTableJoin"),
        ("b", (words, pages), TableTableJoin(pair), "never equal"),
        ("b of three", (words, words, pages), TableTableJoin(lambda a, b, c: a, tables=["a", "b", "c"]), "never equal"),
        ("two of three", (words, words), TableTableJoin(lambda a, b, c: a, tables=["a", "b", "c"]), r"takes 3 tables: \(a, b, c\)"),
        ("other names", {"a": words, "x": words}, TableTableJoin(pair, tables=["a", "b"]), r"takes two tables: \(a, b\)"),
        ("c", (words, words), WindowedTableJoin(pair), "no windowed table"),
        ("d", (views, words), WindowedTableJoin(pair, shift=lambda w: w), "both tables must be windowed"),
        ("e", (words, views), WindowedTableJoin(pair), "window_of names the window"),
        ("f", (views, words), WindowedTableJoin(pair, how="outer"), "two windowed tables on the same window"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            _ = tables | label >> join


def test_a_stream_looks_up_the_window_that_it_names_as_of_its_position_on_every_runner(pipeline):
    with pipeline() as p:
        views = windowed(p, "views", [("home", 0, 10, 1_000), ("home", 0, 11, 5_000), ("home", 1, 20, 8_000)])
        stream = p | "stream" >> beam.Create([("home", 3), ("home", 6), ("home", 9), ("help", 9), (None, 9)])
        timed = stream | beam.Map(lambda pair: timestamped(pair, pair[1] * 1_000))
        join = StreamTableJoin(
            lambda time, count: (time, count), how="left", window_of=lambda key, time: Window(0, 7) if time > 3 else None
        )
        expected = [("home", (3, None)), ("home", (6, 11)), ("home", (9, 11)), ("help", (9, None)), (None, (9, None))]
        assert_that((timed, views) | join, equal_to(expected))


def test_window_of_is_for_windowed_tables_and_only_for_them(direct):
    p = direct()
    stream = p | "stream" >> beam.Create([("home", 3)])
    words = as_table(p | "words" >> beam.Create([]), TableType(str, order="time"))
    with pytest.raises(ValueError, match="only for one"):
        _ = (stream, words) | "a" >> StreamTableJoin(pair, window_of=lambda key, value: None)
    with pytest.raises(ValueError, match="give it for one"):
        _ = (stream, windowed(p, "views", [])) | "b" >> StreamTableJoin(pair)
