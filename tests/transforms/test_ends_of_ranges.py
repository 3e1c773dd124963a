"""Keys of every kind, empty sides, positions and event times at the ends of 64 bits: the law holds in whole
pipelines, too.
"""

import datetime as dt
import uuid
from decimal import Decimal

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that

from beam_joins import ForeignKeyJoin, ManyToManyJoin, OneToManyJoin, TableFromChangelog, TableTableJoin, TableToChanges, content

LEAST, MOST = -(2**63), 2**63 - 1
ENDS = [LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST]
"""Beam's own timestamps reach less far."""
KEYS = [
    *(7, True, 1.5, Decimal("0.1"), float("inf"), LEAST, MOST, -(2**70), 2**70, "a", "", "\0", b"b", b"", uuid.UUID(int=0)),
    *(dt.date.min, dt.date.max, dt.datetime.min, dt.datetime.max, dt.time.max, dt.timedelta.min, dt.timedelta.max),
    *((1, ("x", None)), frozenset({1})),
]


def rows(side):
    """A row of each key at most positions, sometimes deleted; event times have nothing to do with positions."""
    return [
        {
            "id": key,
            "value": f"{side} {n} {i}",
            "at": ENDS[(n + i) % len(ENDS)],
            "lsn": lsn,
            "op": "d" if n % 5 == 4 else "u",
            "by": key,
        }
        for i, key in enumerate(KEYS)
        for n, lsn in enumerate(ENDS)
        if (n + i + (side == "left")) % 3
    ]


def as_of(changelog, position):
    values = {}
    for row in sorted(changelog, key=lambda row: row["lsn"]):
        if row["lsn"] <= position:
            values[row["id"]] = None if row["op"] == "d" else row["value"]
    return {key: value for key, value in values.items() if value is not None}


def joiner(left, right):
    return (left or {}).get("value"), (right or {}).get("value")


KEPT = {"inner": set.intersection, "left": lambda left, right: left, "right": lambda left, right: right, "outer": set.union}
JOINS = [
    *((f"table {how}", how, lambda how=how: TableTableJoin(joiner, how=how), False) for how in KEPT),
    *(
        (f"foreign key {how}", how, lambda how=how: ForeignKeyJoin(joiner, foreign_key="by", how=how), False)
        for how in ("inner", "left")
    ),
    ("one to many", "inner", lambda: OneToManyJoin(joiner, foreign_key="by"), True),
    *((f"many to many {how}", how, lambda how=how: ManyToManyJoin(joiner, on="by", how=how), True) for how in KEPT),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "right"),
    [(rows("left"), rows("right")), ([], rows("right")), (rows("left"), []), ([], [])],
    ids=["both", "no left row", "no right row", "no row"],
)
def test_every_table_join_holds_the_law_at_the_ends_of_all_ranges(left, right):
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        tables = [
            pipeline
            | f"{side} rows" >> beam.Create(changelog).with_output_types(dict)
            | side >> TableFromChangelog(key="id", timestamp_by="at", sequence_by="lsn", apply_as_deletes={"op": ["d"]})
            for side, changelog in (("left", left), ("right", right))
        ]
        for name, how, join, is_combined in JOINS:

            def holds(actual, how=how, is_combined=is_combined):
                for position in ENDS:
                    one, other = as_of(left, position), as_of(right, position)
                    expected = {key: (one.get(key), other.get(key)) for key in KEPT[how](set(one), set(other))}
                    rows = content(actual, position)
                    by_key = {next(part for part in key if part is not None) if is_combined else key: tuple(rows[key]) for key in rows}
                    assert by_key == expected

            changes = tuple(tables) | name >> join() | f"changes of {name}" >> TableToChanges()
            assert_that(changes, holds, label=f"law of {name}")
