"""A run may have other columns than the runs before: rows that are stored get those of the run."""

import random
import re
from datetime import timedelta
from decimal import Decimal

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from beam_joins import AggregateTable, StreamTableJoin, WindowedStreamJoin, vectorized
from beam_joins import aggregates as agg
from beam_joins.errors import StateRefused
from tests.transforms import resumed_jobs
from tests.transforms.resumed_jobs import JOBS, LEFT, RIGHT, history, lines_of, parts, run, typed

CUTS = [20, 40]
_NULLS = re.compile(r"'([lr]_)?(note|city)': None")
TYPED = [
    *("typed table", "inner", "outer", "one to many", "same key", "sums", "aggregates", "sums and means"),
    *("typed stream and table", "typed streams"),
]
"""Jobs with tables and streams of typed columns."""


def stream(p, name, records):
    rows = pa.Table.from_pylist([row for side, row in records if side == "left" and row["by"] is not None], resumed_jobs.LEFT)
    return p | name >> beam.Create([rows]).with_output_types(pa.Table)


def _micros(count):
    return timedelta(microseconds=count)


@vectorized
def beside(left, right):
    return {**{f"l_{name}": left[name] for name in left.schema.names}, **{f"r_{name}": right[name] for name in right.schema.names}}


MORE_JOBS = {
    "sums and means": lambda p, r: [
        typed(p, "left", r) | AggregateTable({"sum": "sum(n)", "mean": "mean(n)", "last": agg.max("n", where=pc.field("n") > 1)})
    ],
    "typed stream and table": lambda p, r: [
        (stream(p, "stream", r), typed(p, "right", r))
        | StreamTableJoin(beside, how="left", key="by", sequence_by="at", timestamp_by="at")
    ],
    "typed streams": lambda p, r: [
        (stream(p, "one", r), stream(p, "other", r))
        | WindowedStreamJoin(
            beside,
            how="inner",
            before=0,
            after=timedelta(microseconds=9),
            grace=timedelta(microseconds=40),
            key="by",
            timestamp_by="at",
        )
    ],
}


def columns(schema: pa.Schema, *, added: str = "", number: pa.DataType | None = None, reverse: bool = False) -> pa.Schema:
    """The columns of a table with one more, with numbers of another type, or in another order."""
    fields = [field.with_type(number) if number is not None and field.name == "n" else field for field in schema]
    fields += [pa.field(added, pa.string())] if added else []
    return pa.schema(reversed(fields) if reverse else fields)


PIECES = [
    (columns(LEFT, number=pa.int32()), columns(RIGHT, number=pa.int16())),
    (columns(LEFT, added="note", reverse=True), columns(RIGHT, number=pa.int32(), added="city")),
    (columns(LEFT, number=pa.int8()), RIGHT),
]
"""The columns of both tables in each of three runs."""
WHOLE = columns(LEFT, added="note"), columns(RIGHT, added="city")


def told(records):
    """The records, of which those between the cuts have values in the new columns."""
    new = {"left": "note", "right": "city"}
    return [(side, {**row, new[side]: f"{side} {row['at'] % 4}"} if CUTS[0] <= row["at"] < CUTS[1] else row) for side, row in records]


def ran(job, records, schemas, monkeypatch, *, out, state=None, partitions=3):
    monkeypatch.setattr(resumed_jobs, "LEFT", schemas[0])
    monkeypatch.setattr(resumed_jobs, "RIGHT", schemas[1])
    monkeypatch.setattr(resumed_jobs, "JOBS", JOBS | MORE_JOBS)
    run(job, records, out, state=state, options=[f"--beam_joins_partitions={partitions}"], latest=True)


def plain(lines):
    """Lines without the new columns where these are null, and with the others in one order."""
    return sorted(sorted(filter(None, map(str.strip, re.split(r"[,{}()]", _NULLS.sub("", line))))) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("job", TYPED)
def test_runs_with_other_columns_give_what_one_run_with_all_columns_gives(job, monkeypatch, tmp_path):
    records = told(history(7))
    ran(job, records, WHOLE, monkeypatch, out=tmp_path / "whole")
    for n, (piece, schemas) in enumerate(zip(parts(records, CUTS), PIECES, strict=True)):
        ran(job, piece, schemas, monkeypatch, out=tmp_path / f"{n}", state=tmp_path / "state")
    made = [line for n in range(3) for line in lines_of(tmp_path / f"{n}")]
    assert plain(made) == plain(lines_of(tmp_path / "whole"))
    assert plain(lines_of(tmp_path / "2.latest")) == plain(lines_of(tmp_path / "whole.latest"))
    assert job in ("inner", "sums", "aggregates", "sums and means") or any(re.search(r"note': 'left", line) for line in made)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(6))
def test_runs_with_columns_and_partitions_drawn_by_chance_give_what_one_run_with_all_columns_gives(seed, monkeypatch, tmp_path):
    draw = random.Random(seed)
    cuts = sorted(draw.sample(range(5, 55), 3))
    drawn = [[drawn_columns(draw, of, added) for of, added in ((LEFT, "note"), (RIGHT, "city"))] for _ in range(4)]
    pieces = [
        [(side, with_new(side, row, *schemas, draw)) for side, row in piece]
        for piece, schemas in zip(parts(history(seed), cuts), drawn, strict=True)
    ]
    for job in draw.sample(TYPED, 3):
        ran(job, [each for piece in pieces for each in piece], WHOLE, monkeypatch, out=tmp_path / f"{job} whole")
        made = []
        for n, (piece, schemas) in enumerate(zip(pieces, drawn, strict=True)):
            state, partitions = tmp_path / f"{job} state", draw.randint(1, 5)
            ran(job, piece, schemas, monkeypatch, out=tmp_path / f"{job} {n}", state=state, partitions=partitions)
            made += lines_of(tmp_path / f"{job} {n}")
        assert plain(made) == plain(lines_of(tmp_path / f"{job} whole"))
        assert plain(lines_of(tmp_path / f"{job} 3.latest")) == plain(lines_of(tmp_path / f"{job} whole.latest"))


def drawn_columns(draw, schema, added):
    number = draw.choice([pa.int8(), pa.int16(), pa.int32(), pa.int64()])
    return columns(schema, added=draw.choice(["", added]), number=number, reverse=draw.random() < 0.5)


def with_new(side, row, left, right, draw):
    """The row with a value in the new column, if its table has one in this run."""
    name, schema = ("note", left) if side == "left" else ("city", right)
    return {**row, name: draw.choice(["x", "y", None])} if name in schema.names else row


def with_keys(schema: pa.Schema, kind: pa.DataType) -> pa.Schema:
    """The columns of a table whose keys and references are of a type."""
    return pa.schema([field.with_type(kind) if field.name in ("id", "by") else field for field in schema])


def of_decimals(records):
    """The records with keys and references that are decimals, all of one row's equal."""
    letters = {name: n for n, name in enumerate("abcd")}
    return [
        (side, {**row, **{name: None if row[name] is None else Decimal(letters.get(row[name], row[name])) / 2 for name in names}})
        for side, row in records
        for names in [row.keys() & {"id", "by"}]
    ]


def of_any_digits(lines):
    """Lines with decimals that are written with as many digits as they need."""
    return plain(re.sub(r"Decimal\('([^']*)'\)", lambda found: str(float(found[1])), line) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [pytest.param([3, 3, 3], marks=pytest.mark.sweep), [3, 2, 4]], ids=str)
@pytest.mark.parametrize("job", TYPED)
def test_runs_with_decimal_keys_of_other_digits_give_what_one_run_gives(job, partitions, monkeypatch, tmp_path):
    records = of_decimals(history(7))
    kinds = [pa.decimal128(4, 1), pa.decimal256(12, 3), pa.decimal128(5, 2)]
    ran(job, records, [with_keys(each, pa.decimal128(12, 3)) for each in (LEFT, RIGHT)], monkeypatch, out=tmp_path / "whole")
    for n, (piece, kind, count) in enumerate(zip(parts(records, CUTS), kinds, partitions, strict=True)):
        schemas = [with_keys(each, kind) for each in (LEFT, RIGHT)]
        ran(job, piece, schemas, monkeypatch, out=tmp_path / f"{n}", state=tmp_path / "state", partitions=count)
    assert of_any_digits(line for n in range(3) for line in lines_of(tmp_path / f"{n}")) == of_any_digits(lines_of(tmp_path / "whole"))
    assert of_any_digits(lines_of(tmp_path / "2.latest")) == of_any_digits(lines_of(tmp_path / "whole.latest"))


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (pa.decimal128(7, 2), "the column 'n' was int64 and is decimal128(7, 2), which does not hold all of its values"),
        (pa.float64(), "the column 'n' was int64 and is double, which does not hold all of its values"),
    ],
)
def test_a_type_that_does_not_hold_the_stored_values_is_refused(now, sentence, monkeypatch, tmp_path):
    first, second = parts(history(7), [20])
    ran("typed table", first, (LEFT, RIGHT), monkeypatch, out=tmp_path / "out", state=tmp_path / "state")
    with pytest.raises(StateRefused, match=re.escape(sentence)):
        ran("typed table", second, (columns(LEFT, number=now), RIGHT), monkeypatch, out=tmp_path / "out", state=tmp_path / "state")
