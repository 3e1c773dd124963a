"""A folder goes on with another pipeline: what has changed is rebuilt from stored rows, or refused."""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import (
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    MapTable,
    OneToManyJoin,
    StateFolder,
    SumTable,
    TableTableJoin,
    TableToChanges,
)
from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.table_type import table_type
from tests.transforms.resumed_jobs import Lines, history, lines_of, opaque, parts, typed

RECORDS = history(7)
CUT = 30
FIRST, SECOND = parts(RECORDS, [CUT])


def tables(p, records, table=typed):
    return table(p, "left", records), table(p, "right", records)


def joined(how="left", joiner=None, **options):
    def built(p, records):
        made = tables(p, records) | "joined" >> ForeignKeyJoin(
            joiner or {"n": "left.n", "m": "right.n"}, foreign_key="by", how=how, **options
        )
        return {"joined": made, "counted": made | "counted" >> CountTable(group_by=_last)}

    return built


def _last(key, value):
    return list(value.values() if isinstance(value, dict) else value)[-1]


def both(left, right):
    return left and left["n"], right and right["n"]


def other(left, right):
    return left and left["by"], right and right["n"]


def _chain(predicate, group_by):
    def built(p, records):
        left, right = tables(p, records, opaque)
        kept = left | "kept" >> FilterTable(predicate)
        first = (kept, right) | "first" >> ForeignKeyJoin(both, foreign_key="by", how="outer")
        mapped = first | "mapped" >> MapTable(lambda key, value: value[0])
        return {"mapped": mapped, "counts": mapped | "counts" >> CountTable(group_by=group_by)}

    return built


def _small(key, row):
    return row["n"] < 6


def _even(key, row):
    return key % 2 == 0


def _value(key, value):
    return value


def _parity(key, value):
    return None if value is None else value % 2


def _summed(of, table):
    def built(p, records):
        left, right = tables(p, records)
        side = left if table == "left" else left | "kept" >> FilterTable(lambda key, row: row["n"] > 3)
        return {"sums": side | "sums" >> SumTable(group_by="by", of=of)}

    return built


def _three(names):
    def built(p, records):
        left, right = tables(p, records, opaque)
        several = {
            "one": left,
            "two": left | "two" >> MapTable(lambda key, row: row["by"]),
            "three": left | "three" >> FilterTable(_even),
        }
        made = {name: several[name] for name in names} | "together" >> TableTableJoin(lambda *rows: rows, how="outer", tables=names)
        return {"together": made}

    return built


def _many(how):
    def built(p, records):
        left, right = tables(p, records)
        return {"many": (right, left) | "many" >> OneToManyJoin(both, foreign_key="by", how=how)}

    return built


CHANGES = {
    "how": (joined("inner"), joined("left")),
    "columns of the joiner": (joined("inner"), joined("inner", {"n": "left.n", "id": "left.by"} | {"m": "right.n"})),
    "joiner": (
        joined(
            "left",
            both,
        ),
        joined("left", other),
    ),
    "an outer join": (joined("inner"), joined("outer")),
    "predicate": (_chain(_small, _value), _chain(_even, _value)),
    "group": (_chain(_small, _value), _chain(_small, _parity)),
    "sum of another column": (_summed("n", "left"), _summed("n", "left over three")),
    "one table more": (_three(["one", "two"]), _three(["one", "two", "three"])),
    "one table less": (_three(["one", "two", "three"]), _three(["one", "two"])),
    "one to many": (_many("inner"), _many("outer")),
    "another class": (_many("inner"), lambda p, r: {"many": tables(p, r) | "many" >> ForeignKeyJoin(both, foreign_key="by")}),
}
"""Two pipelines each, the second of which goes on with the state of the first."""


def run(built, records, out, *, state=None, partitions=3, changed="refuse", again=()):
    options = [
        f"--beam_joins_partitions={partitions}",
        f"--beam_joins_changed={changed}",
        *(f"--beam_joins_read_again={label}" for label in again),
    ]
    options += [f"--beam_joins_state={state}"] if state else []
    anew = {}
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(options)) as p:
        for name, made in built(p, records).items():
            anew[name] = table_type(made).anew
            _ = made | f"changes of {name}" >> TableToChanges() | f"lines of {name}" >> beam.ParDo(Lines(f"{out}.{name}", timed=False))
            _ = (
                made
                | f"latest of {name}" >> LatestTable()
                | f"rows of {name}" >> beam.ParDo(Lines(f"{out}.{name}.latest", timed=False))
            )
    return anew


def changes_in(path):
    from beam_joins import Change, CombinedKey

    return [eval(line, {"Change": Change, "CombinedKey": CombinedKey}) for line in lines_of(path)]


def content(changes, upto=None):
    rows = {}
    for change in sorted(changes, key=lambda change: change.position):
        if upto is None or change.position <= upto:
            assert rows.get(repr(change.key)) == change.old
            rows[repr(change.key)] = change.new
    return {key: value for key, value in rows.items() if value not in (None, 0)}  # a group that had rows has none


def rows_of(path):
    """The lines of rows, without the groups that had rows and have none."""
    return [line for line in lines_of(path) if not line.endswith(", 0) \n") and "'value': 0" not in line]


@pytest.mark.slow
@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_pipeline_gives_the_tables_of_the_new_one_at_every_position_behind_the_frontier(what, tmp_path):
    before, after = CHANGES[what]
    run(before, FIRST, tmp_path / "first", state=tmp_path / "state")
    with pytest.raises(StateRefused, match="with --beam_joins_changed=rebuild"):
        run(after, SECOND, tmp_path / "refused", state=tmp_path / "state")
    anew = run(after, SECOND, tmp_path / "second", state=tmp_path / "state", changed="rebuild")
    run(after, RECORDS, tmp_path / "whole")
    assert CUT - 1 in anew.values()
    for name, frontier in anew.items():
        made, expected = (changes_in(tmp_path / f"{of}.{name}") for of in ("second", "whole"))
        made += [] if frontier is not None else changes_in(tmp_path / f"first.{name}")
        for position in range(CUT - 1, 60):
            assert content(made, position) == content(expected, position)
        assert rows_of(tmp_path / f"second.{name}.latest") == rows_of(tmp_path / f"whole.{name}.latest")


@pytest.mark.slow
def test_what_is_rebuilt_goes_on_in_the_runs_behind_it(tmp_path):
    pieces = parts(RECORDS, [20, 40])
    for n, (piece, built) in enumerate(zip(pieces, [joined("inner"), joined("left"), joined("left")], strict=True)):
        run(built, piece, tmp_path / f"{n}", state=tmp_path / "state", changed="rebuild" if n == 1 else "refuse", partitions=2)
    run(joined("left"), RECORDS, tmp_path / "whole")
    made = changes_in(tmp_path / "1.joined") + changes_in(tmp_path / "2.joined")
    assert content(made) == content(changes_in(tmp_path / "whole.joined"))
    assert rows_of(tmp_path / "2.joined.latest") == rows_of(tmp_path / "whole.joined.latest")
    assert StateFolder.verify(str(tmp_path / "state")) > 0
