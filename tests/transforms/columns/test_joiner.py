"""Joiners: given record by record, as functions of columns, as column expressions; and those that are
refused.
"""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from beam_joins import ForeignKeyJoin, TableTableJoin, vectorized, with_key
from beam_joins.functions.joiner import Pairs, columns_read, joiner_in_columns, narrowed, of_records
from beam_joins.keys.opaque import VALUES, opaque_keys, python_values

LEFT = pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": None}, None])
RIGHT = pa.array([{"a": 10}, {"a": 20}])
PAIRS = Pairs(LEFT, np.array([0, 1, -1, -1, 0]), RIGHT, np.array([1, -1, 0, -1, 0]))
JOINED = [
    {"l": 1, "r": 20, "b": "x"},
    {"l": 2, "r": None, "b": None},
    {"l": None, "r": 10, "b": None},
    None,
    {"l": 1, "r": 10, "b": "x"},
]
TYPES = LEFT.type, RIGHT.type


def side(row, name):
    return None if row is None else row[name]


@pytest.mark.parametrize(
    "joiner",
    [
        pytest.param(lambda left, right: {"l": side(left, "a"), "r": side(right, "a"), "b": side(left, "b")}, id="by record"),
        pytest.param(vectorized(lambda left, right: {"l": left["a"], "r": right["a"], "b": left["b"]}), id="by column"),
        pytest.param({"l": "left.a", "r": "right.a", "b": "left.b"}, id="names"),
        pytest.param({"l": pc.field("left", "a"), "r": "right.a", "b": pc.field("left", "b")}, id="names and expressions"),
        pytest.param(
            {name: pc.field(*of) for name, of in {"l": ("left", "a"), "r": ("right", "a"), "b": ("left", "b")}.items()},
            id="expressions",
        ),
    ],
)
def test_every_kind_of_joiner_joins_the_same_pairs_an_absent_side_all_null(joiner):
    join = joiner_in_columns(joiner)
    assert python_values(join(PAIRS)) == JOINED
    nobody = np.array([-1, -1])
    assert python_values(join(Pairs(LEFT, nobody, RIGHT, nobody))) == [None, None]
    nothing = np.array([], np.int64)
    assert python_values(join(Pairs(LEFT, nothing, RIGHT, nothing))) == []
    sliced = join(Pairs(LEFT.slice(1), np.array([0]), RIGHT.slice(1), np.array([0])))
    assert python_values(sliced) == [{"l": 2, "r": 20, "b": None}]


@pytest.mark.parametrize(
    ("joiner", "kind"),
    [
        pytest.param({"l": "left.a", "r": "right.a"}, pa.struct([("l", pa.int64()), ("r", pa.int64())]), id="names"),
        pytest.param(
            {"l": "left.a", "r": pc.field("right", "a") > 1}, pa.struct([("l", pa.int64()), ("r", pa.bool_())]), id="expressions"
        ),
        pytest.param(vectorized(lambda left, right: {"b": left["b"]}), pa.struct([("b", pa.string())]), id="by column"),
        pytest.param(vectorized(lambda left, right: pc.add(left["a"], right["a"])), pa.int64(), id="an array"),
        pytest.param(lambda left, right: 1, VALUES, id="by record"),
        pytest.param(with_key(lambda key, left, right: 1), VALUES, id="with the key"),
    ],
)
def test_the_type_of_the_result_is_known_before_there_is_a_row(joiner, kind):
    assert joiner_in_columns(joiner, types=TYPES).type == kind


def test_the_type_of_the_result_is_not_known_where_that_of_the_values_is_not():
    assert joiner_in_columns({"l": "left.a"}).type is None
    assert joiner_in_columns({"l": "left.a"}, types=(TYPES[0], None)).type is None
    assert joiner_in_columns(lambda left, right: 1, schema=pa.int64()).type == pa.int64()


def test_what_is_known_before_there_is_a_row_does_not_change_with_rows():
    actual = joiner_in_columns(vectorized(lambda left, right: pc.cast(left["a"], pa.int8()) if len(left) else left["a"]), types=TYPES)
    assert actual(PAIRS) == pa.array([1, 2, None, None, 1], pa.int64())
    other = joiner_in_columns(vectorized(lambda left, right: left["b"] if len(left) else left["a"]), types=TYPES)
    with pytest.raises(ValueError, match="joiner gave values of type string, and of type int64 for no rows"):
        other(PAIRS)


@pytest.mark.parametrize(
    ("joiner", "complaint"),
    [
        ({"x": "left.zzz"}, "joiner: the left table has no column 'zzz'; it has a, b"),
        ({"x": "right.zzz"}, "joiner: the right table has no column 'zzz'; it has a"),
        ({"x": pc.field("left", "zzz")}, "zzz.*left.a, left.b"),
        (vectorized(lambda left, right: left["zzz"]), "zzz.*it is called with no rows when the pipeline is built"),
    ],
)
def test_a_column_that_is_not_there_is_refused_at_construction(joiner, complaint):
    with pytest.raises(ValueError, match=complaint):
        joiner_in_columns(joiner, types=TYPES)


def test_python_objects_have_no_columns():
    with pytest.raises(ValueError, match="the values of this table are Python objects .opaque."):
        joiner_in_columns({"x": "left.a"}, types=(VALUES, TYPES[1]))
    with pytest.raises(ValueError, match="the values of this table are Python objects .opaque."):
        joiner_in_columns({"x": "left"}, types=(VALUES, TYPES[1]))


def test_a_joiner_may_want_the_key():
    pairs = PAIRS._replace(key=opaque_keys([7, "k", (1, 2), None, 9]))
    seen = []
    joiner_in_columns(with_key(lambda *inputs: seen.append(inputs)))(pairs)
    assert [(key, left and left["a"], right and right["a"]) for key, left, right in seen] == [
        (7, 1, 20),
        ("k", 2, None),
        ((1, 2), None, 10),
        (9, 1, 10),
    ]
    del seen[:]
    joiner_in_columns(with_key(lambda *inputs: seen.append(inputs)), names=["left"])(pairs._replace(right_index=np.full(5, -1)))
    assert [(key, left["a"]) for key, left in seen] == [(7, 1), ("k", 2), (9, 1)]


@pytest.mark.parametrize("inputs", [7, None, vectorized(max)])
def test_what_has_no_key_is_refused(inputs):
    with pytest.raises(ValueError, match="give a function of the key, the left value and the right value"):
        with_key(inputs)


@pytest.mark.parametrize(
    ("joiner", "joined"),
    [
        pytest.param(None, [LEFT[0].as_py(), LEFT[1].as_py(), None, None, LEFT[0].as_py()], id="the left value"),
        pytest.param({"l": "left.a"}, [{"l": 1}, {"l": 2}, None, None, {"l": 1}], id="names"),
        pytest.param({"l": pc.field("left", "a") + 1}, [{"l": 2}, {"l": 3}, None, None, {"l": 2}], id="expressions"),
        pytest.param(vectorized(lambda left: left["a"]), [1, 2, None, None, 1], id="by column"),
        pytest.param(lambda left: left["b"], ["x", None, None, None, "x"], id="by record"),
    ],
)
def test_a_join_of_left_values_has_a_joiner_of_those(joiner, joined):
    pairs = PAIRS._replace(right_index=np.full(5, -1))
    actual = joiner_in_columns(joiner, types=TYPES, names=["left"])
    assert python_values(actual(pairs)) == joined
    assert actual(pairs).type == actual.type


def test_a_join_of_left_values_has_no_right_column():
    with pytest.raises(ValueError, match=r"joiner={'x': 'right.a'}: give \"left.<column>\" or an Arrow expression"):
        joiner_in_columns({"x": "right.a"}, names=["left"])
    with pytest.raises(ValueError, match="joiner='left': give a function of the left value"):
        joiner_in_columns("left", names=["left"])


def test_an_expression_computes():
    joiner = {"sum": pc.field("left", "a") + pc.field("right", "a"), "c": pc.scalar(7), "big": pc.field("left", "a") > 1}
    sums = joiner_in_columns(joiner)(PAIRS).to_pylist()
    assert sums[0] == {"sum": 21, "c": 7, "big": False}
    assert sums[1] == {"sum": None, "c": 7, "big": True}
    assert sums[3] is None


@pytest.mark.parametrize("types", [(None, None), TYPES])
def test_a_side_alone_is_its_whole_value_and_null_where_it_is_absent(types):
    actual = joiner_in_columns({"a": "left.a", "of": "right"}, types=types)
    of = [{"a": 20}, None, {"a": 10}, None, {"a": 10}]
    assert python_values(actual(PAIRS)) == [
        None if row is None else {"a": row["l"], "of": right} for row, right in zip(JOINED, of, strict=True)
    ]
    assert types == (None, None) or actual.type == pa.struct([("a", pa.int64()), ("of", RIGHT.type)])
    sliced = actual(Pairs(LEFT.slice(1), np.array([0]), RIGHT.slice(1), np.array([0])))
    assert python_values(sliced) == [{"a": 2, "of": {"a": 20}}]
    numbers = joiner_in_columns({"n": "right"})(PAIRS._replace(right=pa.array([7, None])))
    assert python_values(numbers)[:3] == [{"n": None}, {"n": None}, {"n": 7}]


def test_values_that_have_no_fields_are_the_column_value():
    pairs = Pairs(pa.array([1, 2]), np.array([0, 1]), pa.array(["x", "y"]), np.array([1, -1]))
    assert joiner_in_columns({"n": "left.value", "t": "right.value"})(pairs).to_pylist() == [{"n": 1, "t": "y"}, {"n": 2, "t": None}]
    assert python_values(joiner_in_columns(lambda n, t: f"{n}{t}")(pairs)) == ["1y", "2None"]


def test_a_null_result_is_no_row_and_an_array_is_a_result_without_fields():
    some = joiner_in_columns(vectorized(lambda left, right: pc.if_else(pc.greater(left["a"], 1), left["a"], None)))
    assert some(PAIRS).to_pylist() == [None, 2, None, None, None]
    assert python_values(joiner_in_columns(lambda left, right: left and left["b"])(PAIRS)) == ["x", None, None, None, "x"]
    assert python_values(joiner_in_columns(lambda left, right: None)(PAIRS)) == [None] * 5
    masked = vectorized(lambda left, right: pa.StructArray.from_arrays([left["a"]], ["a"], mask=pc.is_null(right["a"])))
    assert joiner_in_columns(masked)(PAIRS).to_pylist() == [{"a": 1}, None, {"a": None}, None, {"a": 1}]


def test_a_joiner_is_never_called_for_what_is_not_joined():
    seen = []
    joiner_in_columns(lambda left, right: seen.append((left, right)))(PAIRS)
    assert (None, None) not in seen
    assert len(seen) == 4
    lengths = []
    joiner_in_columns(vectorized(lambda left, right: lengths.append(len(left)) or left["a"]))(PAIRS)
    assert lengths == [4]


@pytest.mark.parametrize(
    ("joiner", "complaint"),
    [
        (vectorized(lambda left, right: pa.array([1])), "called with 4 rows and gave 1 rows"),
        (vectorized(lambda left, right: 7), "called with 4 rows and gave a int"),
        ({"x": "left.zzz"}, "joiner: the left table has no column 'zzz'; it has a, b"),
        ({"x": "right.zzz"}, "joiner: the right table has no column 'zzz'; it has a"),
        ({"x": pc.field("left", "zzz")}, "zzz.*left.a, left.b"),
    ],
)
def test_what_a_joiner_must_not_do_is_refused_in_the_run(joiner, complaint):
    join = joiner_in_columns(joiner)
    with pytest.raises(ValueError, match=complaint):
        join(PAIRS)


def test_what_a_joiner_of_records_gives_is_of_one_type_whatever_rows_there_are():
    """Rows of one partition must not decide: without a schema all are Python objects, with one they have its
    columns.
    """
    odd = joiner_in_columns(lambda left, right: {"b": left["b"]} if left and left["a"] > 1 else (right and 1.0))
    assert python_values(odd(PAIRS)) == [1.0, {"b": None}, 1.0, None, 1.0]
    schema = pa.schema([("b", pa.string()), ("n", pa.int64())])
    plain = joiner_in_columns(lambda left, right: left and left["a"], schema=pa.int64())
    assert plain(PAIRS).to_pylist() == [1, 2, None, None, 1]
    typed = joiner_in_columns(lambda left, right: {"b": left["b"]} if left else None, schema=schema)
    nothing = np.array([], np.int64)
    for join, kind in ((odd, VALUES), (typed, pa.struct(schema))):
        assert {
            join(pairs).type
            for pairs in (PAIRS, Pairs(LEFT, nothing, RIGHT, nothing), Pairs(LEFT, np.array([1]), RIGHT, np.array([-1])))
        } == {kind}
    assert typed(PAIRS).to_pylist() == [{"b": "x", "n": None}, {"b": None, "n": None}, None, None, {"b": "x", "n": None}]


def test_a_joiner_with_a_schema_may_give_the_same_bytearray_again():
    buffer = bytearray(b"?")

    def joiner(left, right):
        buffer[0] = ord("0") + left["a"]
        return {"b": buffer}

    pairs = Pairs(LEFT, np.array([0, 1]), RIGHT, np.array([0, 0]))
    assert joiner_in_columns(joiner, schema=pa.schema([("b", pa.binary())]))(pairs).to_pylist() == [{"b": b"1"}, {"b": b"2"}]


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ({"b": 7, "n": 1}, "joiner gave 7 .int. for the column 'b' of type string, which does not hold it exactly"),
        ({"n": "seven"}, "joiner gave 'seven' .str. for the column 'n' of type int64"),
        ({"n": 2**63}, "joiner gave 9223372036854775808 .int. for the column 'n' of type int64"),
        ({"c": 1}, "joiner gave the field 'c' = 1, and there are b, n"),
        (Counter("cd"), "joiner gave the field 'c' = 1, and there are b, n"),
        ("x", "joiner gave 'x' .str. for a column of type struct<b: string, n: int64 not null>, which is made of a dict"),
        ({"b": None, "n": None}, "joiner gave null for n, which schema= declares nullable=False"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_in_the_run(inputs, complaint):
    join = joiner_in_columns(
        lambda left, right: inputs, schema=pa.schema([("b", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    )
    with pytest.raises(ValueError, match=complaint):
        join(PAIRS)


@pytest.mark.parametrize(
    ("joiner", "schema", "complaint"),
    [
        (max, "b: string", "schema='b: string': give a pyarrow.Schema"),
        (max, pa.schema([]), "give a pyarrow.Schema"),
        ({"x": "left.a"}, pa.schema([("x", pa.int64())]), "this joiner gives columns by itself: leave schema= out"),
        (vectorized(max), pa.schema([("x", pa.int64())]), "this joiner gives columns by itself: leave schema= out"),
    ],
)
def test_a_schema_that_says_nothing_is_refused_at_construction(joiner, schema, complaint):
    for construct in (
        lambda: TableTableJoin(joiner, schema=schema),
        lambda: ForeignKeyJoin(foreign_key="b", joiner=joiner, schema=schema),
    ):
        with pytest.raises(ValueError, match=complaint):
            construct()


@pytest.mark.parametrize(
    ("joiner", "complaint"),
    [
        ({}, "joiner={}: give at least one column"),
        ({"x": "amount"}, r"joiner={'x': 'amount'}: give \"left.<column>\", \"right.<column>\" or an Arrow expression"),
        ({"x": "middle.a"}, "joiner={'x': 'middle.a'}"),
        ({"x": "left."}, "joiner={'x': 'left.'}"),
        ({"x": 7}, "joiner={'x': 7}"),
        (
            None,
            r"joiner=None: give a function of the left and the right value, with_key\(function\), a vectorized one, or "
            r"a dict of columns",
        ),
        ("both", "joiner='both'"),
    ],
)
def test_what_is_no_joiner_is_refused_at_construction(joiner, complaint):
    with pytest.raises(ValueError, match=complaint):
        joiner_in_columns(joiner)


@pytest.mark.parametrize("joiner", [{"x": "left.a"}, vectorized(lambda left, right: left)])
def test_a_joiner_of_columns_is_refused_where_records_are_joined(joiner):
    with pytest.raises(ValueError, match="StreamTableJoin joins records, and its joiner is of columns: give a function of two values"):
        of_records("StreamTableJoin", joiner)
    assert of_records("StreamTableJoin", max) is max


def test_only_the_columns_that_a_joiner_reads_travel():
    assert columns_read({"x": "left.a", "y": "left.b", "z": "right.c"}) == [{"a", "b"}, {"c"}]
    assert columns_read({"x": "left.a.b"}) == [{"a.b"}, frozenset()]
    assert columns_read({"x": "left.a", "y": "right", "z": "right.c"}) == [{"a"}, None]
    assert columns_read({"x": "left.a", "y": pc.field("right", "c")}) == [None, None]
    assert columns_read(max) == columns_read(vectorized(max)) == [None, None]
    assert narrowed(LEFT, frozenset({"b"})).to_pylist() == [{"b": "x"}, {"b": None}, None]
    assert narrowed(LEFT.slice(1), frozenset({"b"})).to_pylist() == [{"b": None}, None]
    assert narrowed(LEFT, frozenset()).to_pylist() == [{"a": 1}, {"a": 2}, None], "one column says which values are there"
    assert narrowed(LEFT, None) is LEFT
    assert narrowed(pa.array([7]), frozenset()).to_pylist() == [7]
