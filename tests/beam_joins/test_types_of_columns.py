"""Keys and values of every Arrow type, typed and opaque: they meet, are told apart, and come back as they
were.
"""

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_joins.coders.block import read_block, write_block
from beam_joins.columns.sorting import gather
from beam_joins.kernels import totals
from beam_joins.kernels.aggregate import members
from beam_joins.kernels.key_join import key_join
from beam_joins.kernels.overlap import overlap
from beam_joins.kernels.overlap_events import Shape
from beam_joins.kernels.references import subscriptions
from beam_joins.keys import canonical
from beam_joins.keys.encoded import encoded_keys
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import comparable, factorize, joined_keys, kinds
from beam_joins.keys.nested import combined_keys, windowed_keys
from beam_joins.keys.opaque import opaque_keys, opaque_values, python_keys, python_values
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.changelog import upsert
from beam_joins.values.arrow_types import plain_type
from beam_joins.values.exact_casts import as_plain, exact_cast
from beam_joins.values.exact_values import ValuePlace, exact_column
from tests.beam_joins.types_of_columns import DECIMALS, LEAVES, Sample, key_types, made_of, plain_sample, value_types

KEYS = list(key_types())
NESTED_OF = {pa.int64(), pa.string_view(), pa.uuid(), pa.timestamp("ns", "UTC"), *DECIMALS}
SOME_KEYS = [*map(plain_sample, LEAVES), *(sample for kind in NESTED_OF for sample in made_of(kind))]
FORMS: dict[str, Callable[[Sample], pa.Array]] = {
    "typed": lambda sample: comparable(sample.column, "the key"),
    "opaque": lambda sample: opaque_keys(sample.keys),
}


def name(sample: Sample) -> str:
    return str(sample.type)


def rows(key: pa.Array, **columns: Any) -> pa.Table:
    """Rows as they come out of a shuffle, numbered, one a position."""
    numbers = pa.array(range(len(key)), pa.int64())
    table = pa.table({"key": key, "value": numbers, "timestamp": numbers, "position": numbers, **columns})
    return pa.Table.from_batches([read_block(write_block(table, "rows"))[1]])


def in_partitions(partitions: int, *tables: tuple[pa.Table, pa.Array]) -> list[list[pa.Table]]:
    """The rows of several tables whose keys fall into each partition."""
    fall = [(hashes(keys) % np.uint64(partitions)).astype(np.int64) for _, keys in tables]
    return [[table.filter(pa.array(at == n)) for (table, _), at in zip(tables, fall, strict=True)] for n in range(partitions)]


@pytest.mark.parametrize("sample", KEYS, ids=name)
def test_keys_of_a_type_are_equal_in_columns_and_as_python_objects(sample):
    typed, opaque = (form(sample) for form in FORMS.values())
    expected = sample.keys
    assert python_keys(typed) == python_keys(opaque) == expected
    assert [type(key) for key in python_keys(typed.slice(1))] == [type(key) for key in expected[1:]]
    one, other, both = factorize(typed, opaque, joined_keys(typed, opaque))
    assert one.tolist() == other.tolist() == both[: len(one)].tolist() == both[len(one) :].tolist()
    assert len(set(one.tolist())) == len(expected)
    assert hashes(typed).tolist() == hashes(opaque).tolist()
    assert encoded_keys(typed).equals(encoded_keys(opaque))
    assert kinds(typed) >= kinds(opaque) or "(" in str(kinds(typed))
    assert comparable(typed, "the key").equals(typed)


def test_keys_of_two_types_are_equal_where_they_are_in_python():
    samples = [Sample(sample.type, sample.values[:-1]) for sample in SOME_KEYS]
    columns = [FORMS["typed"](sample) for sample in samples]
    encoded = [list(map(canonical.encode, sample.keys)) for sample in samples]
    hashed = [hashes(column).tolist() for column in columns]
    for one, other in itertools.combinations(range(len(samples)), 2):
        codes = [code.tolist() for code in factorize(columns[one], columns[other])]
        for i, j in itertools.product(range(len(encoded[one])), range(len(encoded[other]))):
            equal = encoded[one][i] == encoded[other][j]
            assert (codes[0][i] == codes[1][j]) == equal, (samples[one], samples[other])
            assert not equal or hashed[one][i] == hashed[other][j], (samples[one], samples[other])


def test_nested_keys_are_encoded_in_columns_as_one_by_one():
    kind = pa.struct({"a": pa.int64(), "b": pa.string(), "c": pa.float64()})
    parts = pa.array([(1, "x", None), (None, None, None), None, (2, "", 1.5)], kind)
    combined = combined_keys(parts, pa.array([7, None, 9, None]))
    windowed = windowed_keys(combined, pa.array([0, 1, 2, 3]), pa.array([5, 6, 7, 8]), mask=pa.array([False, True, False, False]))
    objects = combined_keys(opaque_keys([1, "a", (1, 2), None]), pa.array([b"x", None, b"", b"y"]))
    for keys in (parts, combined, windowed, objects, parts.slice(1, 2), windowed.slice(2), combined.slice(0, 0)):
        assert encoded_keys(keys).equals(pa.array(map(canonical.encode, python_keys(keys)), pa.binary()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left_form", "right_form", "partitions"),
    [("typed", "typed", 1), ("typed", "opaque", 1), ("typed", "opaque", 3), ("typed", "opaque", 16), ("opaque", "typed", 3)],
)
def test_keys_of_every_type_join_refer_and_group_in_any_number_of_partitions(left_form, right_form, partitions):
    for sample in SOME_KEYS:
        left, right = FORMS[left_form](sample), FORMS[right_form](sample)
        present = np.arange(len(left) - 1)  # the last key is null
        tables = rows(gather(left, present)), rows(gather(right, present))
        table = upsert(tables[0], "updates")[0]
        numbers = rows(pa.array(range(len(left)), pa.int64()))
        referring = pa.Table.from_batches([subscriptions(upsert(numbers, "updates")[0], left, Shape("inner"))])
        joins, references, groups = [], [], []
        for part in in_partitions(
            partitions,
            (tables[0], table.key),
            (tables[1], tables[1]["key"].combine_chunks()),
            (referring, referring["reference"].combine_chunks()),
        ):
            if not any(map(len, part)):
                continue
            joined = key_join(part[:2], _numbers, ["inner"]).changes
            joins += pairs_of(joined)
            referred = overlap(part[2], part[1], _numbers, Shape("inner")).changes
            references += pairs_of(referred)
        counted = pa.Table.from_batches([members(upsert(numbers, "updates")[0], left, {}, keyed=False)] * 2)
        for (part,) in in_partitions(partitions, (counted, counted["group"].combine_chunks())):
            counts = totals.step(Arrangement(), part)[0]
            groups += list(zip(python_keys(counts.key), counts.new.to_pylist(), strict=True))
        expected = [(key, (n, n)) for n, key in enumerate(sample.keys[:-1])]
        assert ordered(joins) == ordered(expected), sample
        assert sorted(references) == [pair for _, pair in zip(expected, [(n, (n, n)) for n in present.tolist()], strict=True)], sample
        assert ordered(groups) == ordered([(key, 2) for key, _ in expected]), sample


def _numbers(pairs: Any) -> pa.Array:
    left, right = gather(pairs.left, pairs.left_index), gather(pairs.right, pairs.right_index)
    return pa.StructArray.from_arrays([left, right], names=["l", "r"])


def pairs_of(changes: Any) -> list[Any]:
    values = [tuple(value.values()) for value in changes.new.to_pylist()]
    return list(zip(python_keys(changes.key), values, strict=True))


def ordered(pairs: list[Any]) -> list[Any]:
    return sorted(pairs, key=canonical.encode)


@pytest.mark.parametrize("sample", value_types(), ids=name)
def test_values_of_a_type_come_back_as_they_were(sample):
    column = as_plain(sample.column)
    assert column.type == plain_type(sample.type) == pickle.loads(pickle.dumps(column.type))
    assert exact_column(sample.values, column.type, ValuePlace("fn")).equals(column)
    assert python_values(column) == sample.values
    if "interval" not in str(sample.type):  # it has no Python type that is written
        assert python_values(opaque_values(sample.values)) == sample.values
    assert as_plain(sample.column.slice(1)).equals(column.slice(1))
    numbers = pa.array([0] * len(column), pa.int64())
    inputs = pa.table({"key": numbers, "value": column, "timestamp": numbers, "position": pa.array(range(len(column)), pa.int64())})
    table, _ = upsert(pa.Table.from_batches([read_block(write_block(inputs, "rows"))[1]]), "updates")
    present = [value for value in sample.values if value is not None]
    assert [change.new for change in table] == sample.values
    assert [change.old for change in table] == [None, *present]


@pytest.mark.parametrize("kind", [pa.map_(pa.string(), pa.int64()), pa.month_day_nano_interval()], ids=str)
def test_what_has_no_equality_is_refused_as_a_key_at_any_depth(kind):
    for refused in (kind, pa.list_(kind), pa.struct([("x", pa.list_(pa.struct([("y", kind)])))])):
        with pytest.raises(ValueError, match="the key.* is of type .*, which has no equality"):
            comparable(pa.nulls(0, refused), "the key")


def test_the_table_of_types_has_every_type_of_arrow():
    made = {sample.type.id for sample in value_types()}
    without = ("NA", "MAX_ID", "SPARSE_UNION", "DENSE_UNION", "INTERVAL_MONTHS", "INTERVAL_DAY_TIME")
    assert {name for name, number in vars(pa.lib).items() if name.startswith("Type_") and number not in made} <= {
        f"Type_{name}" for name in without
    }


UUIDS = pa.array([bytes(15) + bytes([n]) for n in range(3)], pa.uuid())
NAMES = pa.array(["a", "b", "c"])


@pytest.mark.parametrize(("keys", "items"), [(UUIDS, NAMES), (NAMES, UUIDS), (NAMES, NAMES.dictionary_encode())])
@pytest.mark.parametrize("start", range(4))
def test_maps_are_cast_from_any_row_on_with_missing_ones_among_them(keys: pa.Array, items: pa.Array, start: int) -> None:
    missing = pa.array([False, True, False])
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), keys, items, mask=missing)
    actual = exact_cast(maps[start:], pa.map_(pa.string(), pa.string()), ValuePlace("a batch")).to_pylist()
    assert actual == [[(str(keys[0]), str(items[0]))], None, [(str(keys[2]), str(items[2]))]][start:]
