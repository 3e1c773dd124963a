"""The texts of rows are those of their records without the columns about the change, in the order of the columns."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest

from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.row_texts import row_text, row_texts

COLUMNS = Columns(key=("id",), timestamp="at", delete="op", sequence="lsn")
KNOWN = ("id", "at", "n", "s")


def records(others: float) -> list[bytes]:
    """Records with their members in any order, without some, and with ``others``, so many of them."""
    chance = random.Random(5)
    made = []
    for n in range(600):
        members = {"id": n, "op": "u", "lsn": n, "at": 7, "n": 1.5, "s": None, "x": [1]}
        names = [name for name in members if name != "x" or chance.random() < others]
        chance.shuffle(names)
        made.append(json.dumps({name: members[name] for name in names if name == "id" or chance.random() < 0.8}).encode())
    return [*made, b'{"n": 1.50, "id": 1, "n": 2.50}', b'{"id":{"op":1,"a":[{}]},"s":"\\u00e9"}']


@pytest.mark.parametrize("others", [0, 0.05, 0.9])
@pytest.mark.parametrize("allowed", [None, frozenset({*KNOWN, "op", "lsn"}), frozenset({"id", "at", "n", "op", "lsn"})])
def test_each_text_is_that_of_its_record_alone_whatever_records_are_beside_it(others: float, allowed: frozenset[str] | None) -> None:
    plan, some = ReadPlan(columns=COLUMNS, members=KNOWN, allowed=allowed), records(others)
    sure = np.full(len(some), True)
    texts = row_texts(pa.array(some, pa.binary()), sure, plan).to_pylist()
    fits = [allowed is None or allowed.issuperset(json.loads(each)) for each in some]
    assert sure.tolist() == fits
    assert texts == [row_text(each, plan) if is_fit else None for each, is_fit in zip(some, fits, strict=True)]
    assert any(fits)
    for each, text in zip(some, texts, strict=True):
        if text is not None:
            row = {name: value for name, value in json.loads(each).items() if name not in ("op", "lsn")}
            assert json.loads(text) == row
            assert [name for name in json.loads(text) if name in KNOWN] == [name for name in KNOWN if name in row]


def test_a_record_that_is_no_object_is_not_sure() -> None:
    some = [b'{"id":1,"op":"u"}', b"[1]", b'{"id":', b'{"id":2}']
    sure = np.full(len(some), True)
    plan = ReadPlan(columns=COLUMNS, members=KNOWN)
    assert row_texts(pa.array(some, pa.binary()), sure, plan).to_pylist() == [b'{"id":1}', None, None, b'{"id":2}']
    assert sure.tolist() == [True, False, False, True]


def test_a_column_has_two_roles() -> None:
    plan = ReadPlan(columns=Columns(key=("id",), timestamp="at", delete="op", sequence="op"), members=KNOWN)
    assert row_texts(pa.array([b'{"n":1,"op":7,"id":1}']), np.full(1, True), plan).to_pylist() == [b'{"id":1,"n":1}']
