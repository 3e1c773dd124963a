"""A folder goes on with another pipeline: what has changed is rebuilt from stored rows, or refused."""

import copy
from contextlib import nullcontext
from functools import partial

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows

from beam_joins import (
    Change,
    CombinedKey,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    ManyToManyJoin,
    MapTable,
    OneToManyJoin,
    StateFolder,
    StreamTableJoin,
    SumTable,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    WindowedAggregate,
    begins_anew,
    versioned,
)
from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.construction.table_type import is_batches
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions
from tests.kept_states import restore
from tests.transforms import make_states, resumed_jobs
from tests.transforms.resumed_jobs import LEFT, Lines, beam_deletes, history, lines_of, opaque, parts, stream, timed, typed

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


def _equal(how, condition=None):
    def built(p, records):
        left, right = tables(p, records)
        return {
            "equal": (left, right) | "equal" >> ManyToManyJoin(both, left_on=_third, right_on=_third, how=how, condition=condition)
        }

    return built


def _third(key, row):
    return row["n"] % 3 or None


def _less(left, right):
    return left["n"] < right["n"]


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
    "condition": (_equal("inner"), _equal("inner", _less)),
    "unmatched rows of a join by any equality": (_equal("inner", _less), _equal("outer", _less)),
    "another class": (_many("inner"), lambda p, r: {"many": tables(p, r) | "many" >> ForeignKeyJoin(both, foreign_key="by")}),
}
"""Two pipelines each, the second of which goes on with the state of the first."""
MORE = {"columns of the joiner", "an outer join", "group", "one table less", "one to many", "unmatched rows of a join by any equality"}
"""Changes that show no more than others do."""


def run(built, records, out, *, state=None, partitions=3, changed="refuse", again=(), spark=None):
    flags = [f"--beam_joins_partitions={partitions}", f"--beam_joins_changed={changed}"]
    flags += [f"--beam_joins_read_again={label}" for label in again]
    flags += [f"--beam_joins_state={state}"] if state else []
    options = PipelineOptions(flags)
    made = {"runner": FnApiRunner(), "options": options}
    if spark is not None:
        made = {"options": copy.deepcopy(spark)}
        for option in ("beam_joins_state", "beam_joins_changed", "beam_joins_partitions"):
            setattr(made["options"].view_as(ReplayOptions), option, getattr(options.view_as(ReplayOptions), option))
    with beam.Pipeline(**made) as p:
        return put(built, p, records, out)


def put(built, p, records, out):
    """Put the tables of a pipeline into it, with their changes and rows as lines of files; gives where tables begin anew."""
    anew = {}
    for name, made in built(p, records).items():
        if not is_batches(made):
            _ = made | f"lines of {name}" >> beam.ParDo(Lines(f"{out}.{name}", timed=True))
            continue
        anew[name] = begins_anew(made)
        _ = made | f"changes of {name}" >> TableToChanges() | f"lines of {name}" >> beam.ParDo(Lines(f"{out}.{name}", timed=False))
        _ = made | f"latest of {name}" >> LatestTable() | f"rows of {name}" >> beam.ParDo(Lines(f"{out}.{name}.latest", timed=False))
    return anew


def changes_in(path):
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
@pytest.mark.parametrize("what", [pytest.param(what, marks=pytest.mark.sweep) if what in MORE else what for what in CHANGES])
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


def _keyed(key, right_from=0):
    def built(p, records):
        rows = pa.Table.from_pylist([row for of, row in records if of == "left"], LEFT)
        left = p | "read left" >> beam.Create([rows]).with_output_types(pa.Table)
        left |= "left" >> TableFromChangelog(key=key, sequence_by="at", timestamp_by="at", apply_as_deletes=beam_deletes)
        right = typed(p, "right", [each for each in records if each[1]["at"] >= right_from])
        made = (left, right) | "joined" >> ForeignKeyJoin({"n": "left.n", "m": "right.n"}, foreign_key="by", how="left")
        return {"left": left, "joined": made}

    return built


@pytest.mark.slow
def test_a_source_with_another_key_is_read_again_and_the_others_go_on(tmp_path):
    run(_keyed("id"), FIRST, tmp_path / "first", state=tmp_path / "state")
    with pytest.raises(StateRefused, match="key was 'id' and is .*--beam_joins_read_again=left, or begin") as refused:
        run(_keyed(["id", "by"]), SECOND, tmp_path / "refused", state=tmp_path / "state", changed="rebuild")
    assert "joined (ForeignKeyJoin): it is behind left, which needs its history" in str(refused.value)
    again = {"state": tmp_path / "state", "again": ["left"]}
    anew = run(_keyed(["id", "by"], CUT), RECORDS, tmp_path / "second", **again)
    assert anew == {"left": CUT - 1, "joined": CUT - 1}
    run(_keyed(["id", "by"]), RECORDS, tmp_path / "whole")
    for name in anew:
        made, expected = (changes_in(tmp_path / f"{of}.{name}") for of in ("second", "whole"))
        for position in range(CUT - 1, 60):
            assert content(made, position) == content(expected, position)
    with pytest.raises(StateRefused, match="the run before has read it again: leave the option out"):
        run(_keyed(["id", "by"], CUT), RECORDS, tmp_path / "third", **again)
    run(_keyed(["id", "by"]), [], tmp_path / "fourth", state=tmp_path / "state")
    assert rows_of(tmp_path / "fourth.joined.latest") == rows_of(tmp_path / "whole.joined.latest")


def test_a_label_to_read_again_that_is_not_there_is_told_with_those_that_are(tmp_path):
    with pytest.raises(StateRefused, match="read_again=lift: the pipeline has no transform of that label, but .*'left'"):
        run(joined(), FIRST, tmp_path / "out", state=tmp_path / "state", again=["lift"])


@pytest.mark.slow
def test_a_source_that_is_new_needs_its_history_and_is_read_with_it(tmp_path):
    def one(p, records):
        return {"left": typed(p, "left", records)}

    run(one, FIRST, tmp_path / "first", state=tmp_path / "state")
    with pytest.raises(StateRefused, match=r"right \(TableFromChangelog\): it is new: give its whole input"):
        run(joined(), SECOND, tmp_path / "refused", state=tmp_path / "state", changed="rebuild")
    records = [each for each in RECORDS if each[0] == "right" or each[1]["at"] >= CUT]
    run(joined(), records, tmp_path / "second", state=tmp_path / "state", changed="rebuild", again=["right"])
    run(joined(), RECORDS, tmp_path / "whole")
    assert rows_of(tmp_path / "second.joined.latest") == rows_of(tmp_path / "whole.joined.latest")
    assert content(changes_in(tmp_path / "second.joined")) == content(changes_in(tmp_path / "whole.joined"))


@pytest.mark.slow
def test_a_new_source_keeps_its_positions_beside_a_table_whose_positions_are_times(tmp_path):
    def built(is_more):
        def beside(p, records):
            made = {"times": timed(p, "right", FIRST if not is_more else []) | "times" >> CountTable(group_by="n")}
            return {**made, "left": typed(p, "left", records)} if is_more else made

        return beside

    run(built(False), [], tmp_path / "first", state=tmp_path / "state")
    anew = run(built(True), FIRST, tmp_path / "second", state=tmp_path / "state", changed="rebuild", again=["left"])
    assert anew["left"] is None
    run(built(True), SECOND, tmp_path / "third", state=tmp_path / "state")
    run(built(True), RECORDS, tmp_path / "whole")
    lines = lines_of(tmp_path / "second.left") + lines_of(tmp_path / "third.left")
    assert sorted(lines) == lines_of(tmp_path / "whole.left")


@pytest.mark.slow
def test_a_transform_without_rows_so_far_may_be_another_one(tmp_path):
    run(joined("inner"), [], tmp_path / "first", state=tmp_path / "state")
    run(joined("left"), RECORDS, tmp_path / "second", state=tmp_path / "state")
    run(joined("left"), RECORDS, tmp_path / "whole")
    assert rows_of(tmp_path / "second.joined.latest") == rows_of(tmp_path / "whole.joined.latest")


def _looked_up(how, predicate):
    def built(p, records):
        table = timed(p, "right", records) | "kept" >> FilterTable(predicate)
        return {"out": (stream(p, "left", records, "by"), table) | "looked up" >> StreamTableJoin(_pair, how=how)}

    return built


def _pair(n, row):
    return n, row and row["n"]


def _any(key, row):
    return True


def _large(key, row):
    return row["n"] > 4


@pytest.mark.slow
def test_a_stream_looks_up_the_rows_of_a_rebuilt_table_and_its_functions_are_of_the_run(tmp_path):
    state = tmp_path / "state"
    run(_looked_up("inner", _any), FIRST, tmp_path / "first", state=state)
    run(_looked_up("left", _any), [], tmp_path / "another how", state=state)
    run(_looked_up("left", _large), SECOND, tmp_path / "second", state=state, changed="rebuild")
    run(_looked_up("left", _large), RECORDS, tmp_path / "whole")
    behind = [line for line in lines_of(tmp_path / "whole.out") if int(line.split()[-1]) >= CUT * resumed_jobs.SECOND]
    assert lines_of(tmp_path / "second.out") == behind


@pytest.mark.slow
def test_a_step_of_others_between_a_table_and_a_rebuilt_join_maps_the_stored_rows_too(tmp_path):
    def built(how):
        def with_steps(p, records):
            left, right = tables(p, records, opaque)
            plain = left | "plain" >> beam.FlatMap(lambda batch: batch).with_output_types(Change)
            none = right | "none" >> FilterTable(lambda key, row: False) | "none one by one" >> TableToChanges()
            twice = (plain, none) | beam.Flatten()
            return {"joined": (twice, right) | "joined" >> ForeignKeyJoin(both, foreign_key="by", how=how)}

        return with_steps

    run(built("inner"), FIRST, tmp_path / "first", state=tmp_path / "state")
    run(built("left"), SECOND, tmp_path / "second", state=tmp_path / "state", changed="rebuild")
    run(built("left"), RECORDS, tmp_path / "whole")
    assert rows_of(tmp_path / "second.joined.latest") == rows_of(tmp_path / "whole.joined.latest")


def _split(change):
    yield beam.pvalue.TaggedOutput("odd" if change.key % 2 else "even", change)
    yield change


def _outputs_of_others(how):
    """Joins of the outputs of a step of others, whose element types are not known, in another order than that of its names."""

    def built(p, records):
        left, right = tables(p, records, opaque)
        split = left | TableToChanges() | "split" >> beam.FlatMap(_split).with_outputs("odd", "even", main="all")
        return {
            name: (split[name], right) | name >> ForeignKeyJoin(both, foreign_key="by", how=how) for name in ("even", "all", "odd")
        }

    return built


@pytest.mark.slow
def test_each_output_of_a_step_of_others_has_its_stored_rows(tmp_path):
    run(_outputs_of_others("inner"), FIRST, tmp_path / "first", state=tmp_path / "state")
    run(_outputs_of_others("left"), SECOND, tmp_path / "second", state=tmp_path / "state", changed="rebuild")
    run(_outputs_of_others("left"), RECORDS, tmp_path / "whole")
    for name in ("even", "all", "odd"):
        assert rows_of(tmp_path / f"second.{name}.latest") == rows_of(tmp_path / f"whole.{name}.latest")


@pytest.mark.slow
@pytest.mark.parametrize("by", [lambda key, row: None, "none"])
def test_a_transform_that_has_dropped_all_of_its_rows_is_rebuilt_of_them(by, tmp_path):
    def counted(group_by):
        return lambda p, records: {"counts": opaque(p, "left", records) | "counts" >> CountTable(group_by=group_by)}

    records = [(of, {**row, "none": None}) for of, row in RECORDS]
    first, second = parts(records, [CUT])
    run(counted(by), first, tmp_path / "first", state=tmp_path / "state")
    with pytest.raises(StateRefused, match="counts .*group_by"):
        run(counted("by"), second, tmp_path / "refused", state=tmp_path / "state")
    run(counted("by"), second, tmp_path / "second", state=tmp_path / "state", changed="rebuild")
    run(counted("by"), records, tmp_path / "whole")
    assert rows_of(tmp_path / "second.counts.latest") == rows_of(tmp_path / "whole.counts.latest")


@pytest.mark.slow
def test_a_transform_that_is_new_in_a_folder_of_format_5_waits_for_a_run_without_it(tmp_path):
    def summed(is_more):
        def built(p, records):
            left = typed(p, "left", records)
            made = {"sums": left | SumTable(group_by="by", of="n")}
            return {**made, "more": left | "more" >> CountTable(group_by="by")} if is_more else made

        return built

    def go_on(built, records, changed="refuse"):
        flags = [f"--beam_joins_state={tmp_path / 'state'}", f"--beam_joins_changed={changed}"]
        with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(flags)) as p:
            for name, made in built(p, records).items():
                _ = (
                    made
                    | f"changes of {name}" >> TableToChanges()
                    | f"lines of {name}" >> beam.ParDo(Lines(tmp_path / name, timed=False))
                )

    first, second = parts(make_states.records(), [make_states.CUT])
    restore(make_states.STATES / "format_5.zip", "sums", tmp_path / "state")
    with pytest.raises(StateRefused, match=r"earlier version, and more is new: run the pipeline of before once more, then .*rebuild"):
        go_on(summed(True), second, "rebuild")
    go_on(summed(False), [])
    go_on(summed(True), second, "rebuild")
    run(summed(True), make_states.records(), tmp_path / "whole")
    assert content(changes_in(tmp_path / "more")) == content(changes_in(tmp_path / "whole.more"))


@pytest.mark.slow
def test_only_a_transform_of_records_is_read_again(tmp_path):
    run(joined("inner"), FIRST, tmp_path / "first", state=tmp_path / "state")
    sentence = "read_again=joined: name a transform that reads records, 'left', 'right': those behind it are rebuilt"
    with pytest.raises(StateRefused, match=sentence):
        run(joined("left"), SECOND, tmp_path / "refused", state=tmp_path / "state", again=["joined"])


def test_a_changed_aggregate_of_a_stream_needs_its_history(tmp_path):
    def weeks(initial):
        return lambda p, r: {
            "weeks": stream(p, "left", r) | "weeks" >> WindowedAggregate(FixedWindows(7), initial=initial, add=lambda a, b: a + b)
        }

    run(weeks(0), FIRST, tmp_path / "first", state=tmp_path / "state")
    with pytest.raises(StateRefused, match=r"weeks \(WindowedAggregate\): initial was 0 and is 1: give its whole input"):
        run(weeks(1), SECOND, tmp_path / "refused", state=tmp_path / "state", changed="rebuild")


@pytest.mark.slow
def test_an_aggregate_of_a_stream_that_has_looked_rows_up_is_not_read_again(tmp_path):
    def weeks(initial):
        def of_looked_up(p, records):
            prices = timed(p, "right", records)
            sales = (stream(p, "left", records, "by"), prices) | "sales" >> StreamTableJoin(lambda n, row: n, how="left")
            return {"weeks": sales | "weeks" >> WindowedAggregate(FixedWindows(7), initial=initial, add=lambda a, b: a + b)}

        return of_looked_up

    run(weeks(0), FIRST, tmp_path / "first", state=tmp_path / "state")
    again = {"state": tmp_path / "state", "changed": "rebuild", "again": ["weeks"]}
    with pytest.raises(StateRefused, match="read_again=weeks: it is behind sales, which gives the rows of this run alone"):
        run(weeks(1), RECORDS, tmp_path / "refused", **again)


def test_changes_behind_a_step_of_another_library_begin_anew_with_their_table(tmp_path):
    positions = []

    def built(how):
        def mapped(p, records):
            made = joined(how)(p, records)
            changes = made["joined"] | "one by one" >> TableToChanges() | "mapped" >> beam.Map(_same)
            positions.append(begins_anew(changes))
            return made

        return mapped

    run(built("inner"), FIRST, tmp_path / "first", state=tmp_path / "state")
    run(built("left"), SECOND, tmp_path / "second", state=tmp_path / "state", changed="rebuild")
    assert positions == [None, CUT - 1]


def _same(change):
    return change


def _times(factor):
    return lambda left, right: left["n"] * factor


def _said(joiner):
    return versioned("1")(joiner)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "is_another"),
    [
        (lambda left, right: left["n"], lambda left, right: -left["n"], True),
        (_times(2), _times(3), True),
        (_times(2), _times(2), False),
        (_said(lambda left, right: left["n"]), _said(lambda left, right: -left["n"]), False),
        (partial(max, 1), partial(max, 2), True),
    ],
)
def test_a_function_of_the_same_name_is_another_one_where_it_does_other_things(before, after, is_another, tmp_path):
    run(joined(joiner=before), FIRST[:3], tmp_path / "first", state=tmp_path / "state")
    refused = pytest.raises(StateRefused, match=r"joined \(ForeignKeyJoin\): joiner(=.* is another function than before| was )")
    with refused if is_another else nullcontext():
        run(joined(joiner=after), [], tmp_path / "second", state=tmp_path / "state")


@pytest.mark.slow
def test_a_join_that_got_no_rows_gets_those_that_another_table_has_stored(tmp_path):
    def built(predicate):
        def of_some(p, records):
            left, right = tables(p, records)
            some = left if predicate is None else left | "some" >> FilterTable(predicate)
            return {"counts": some | "counts" >> CountTable(group_by="by"), "right": right}

        return of_some

    run(built(lambda key, row: False), FIRST, tmp_path / "first", state=tmp_path / "state")
    run(built(None), SECOND, tmp_path / "second", state=tmp_path / "state", changed="rebuild")
    run(built(None), RECORDS, tmp_path / "whole")
    assert rows_of(tmp_path / "second.counts.latest") == rows_of(tmp_path / "whole.counts.latest")


@pytest.mark.slow
def test_tables_of_different_frontiers_begin_anew_at_the_last_of_them(tmp_path):
    def apart(of):
        def built(p, records):
            left, right = tables(p, records)
            early = typed(p, "right", of, "early")
            made = (left, early if records is SECOND else right) | "joined" >> ForeignKeyJoin(both, foreign_key="by")
            return {"joined": made, "counts": early | "counts" >> CountTable(group_by="n")}

        return built

    early = [each for each in FIRST if each[1]["at"] < 9]
    later = [("right", {"id": "a", "n": 100, "at": 12}), ("right", {"id": "b", "n": 200, "at": CUT + 4})]
    run(apart(early), FIRST, tmp_path / "first", state=tmp_path / "state")
    anew = run(apart(later), SECOND, tmp_path / "second", state=tmp_path / "state", changed="rebuild")
    assert anew["joined"] == CUT - 1
    lefts = [each for each in RECORDS if each[0] == "left"]
    run(joined("inner", both), [*lefts, *(each for each in [*early, *later] if each[0] == "right")], tmp_path / "whole")
    made = changes_in(tmp_path / "second.joined")
    assert min(change.position for change in made) == CUT - 1
    assert content(made) == content(changes_in(tmp_path / "whole.joined"))


def test_a_flatten_of_a_table_that_begins_anew_with_another_one_is_told(tmp_path):
    def built(predicate):
        def flattened(p, records):
            left = typed(p, "left", records)
            odd, even = left | "odd" >> FilterTable(_odd), left | "even" >> FilterTable(predicate)
            return {"both": (odd, even) | beam.Flatten(), "filtered": (odd, even) | "all" >> beam.Flatten() | FilterTable(_any)}

        return flattened

    run(built(_even), FIRST, tmp_path / "first", state=tmp_path / "state")
    with pytest.raises(ValueError, match="flattened with others.*: apply FilterTable or MapTable behind the Flatten"):
        run(built(lambda key, row: key == 2), [], tmp_path / "second", state=tmp_path / "state", changed="rebuild")


def _odd(key, row):
    return key % 2 == 1


@pytest.mark.spark
def test_a_pipeline_is_rebuilt_on_spark_as_on_the_direct_runner(tmp_path, spark_options):
    run(_chain(_small, _value), FIRST, tmp_path / "first", state=tmp_path / "state")
    StateFolder.copy(str(tmp_path / "state"), str(tmp_path / "copy"))
    for name, spark in (("state", None), ("copy", spark_options)):
        run(_chain(_even, _parity), SECOND, tmp_path / f"second {name}", state=tmp_path / name, changed="rebuild", spark=spark)
    for table in ("mapped", "counts"):
        assert lines_of(tmp_path / f"second copy.{table}") == lines_of(tmp_path / f"second state.{table}")


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
