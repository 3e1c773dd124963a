"""The rule for a changed pipeline: each row of the table in docs/changed_pipelines.md."""

import inspect

import apache_beam as beam
import pytest

import beam_joins
from beam_joins import Change, FilterTable, TableFromChangelog, WindowedAggregate, WindowedStreamJoin
from beam_joins.transforms.engine.construction.pipeline_changes import OF_RECORDS, OF_TABLES, Decision, decided
from beam_joins.transforms.engine.transform import Transform

TRANSFORMS = [
    each for name in beam_joins.__all__ if inspect.isclass(each := getattr(beam_joins, name)) and issubclass(each, Transform)
]
OF_THE_RUN = {
    "TableFromChangelog": {"emit", "schema"},
    "StreamTableJoin": {"joiner", "how", "window_of", "stream_schema", "schema"},
    "StreamForeignKeyJoin": {"joiner", "how", "foreign_key", "stream_schema", "schema"},
    "WindowedStreamJoin": {"joiner", "schema", "stream_schemas"},
    "WindowedAggregate": {"stream_schema"},
    "WindowedTableToStream": {"fn"},
}
"""Options that no state depends on, or whose columns the state compares."""
READS_RECORDS = {"TableFromChangelog", "WindowedStreamJoin", "WindowedAggregate", "StreamTableJoin", "StreamForeignKeyJoin"}
OPTIONS = [
    pytest.param(transform, option, id=f"{transform.__name__} {option}")
    for transform in TRANSFORMS
    for option in list(inspect.signature(transform.__init__).parameters)[1:]
]


def applied(class_="ForeignKeyJoin", inputs=(), upstream=(), functions=None, **options):
    made = {"transform": class_, "options": options, "inputs": list(inputs), "upstream": list(upstream)}
    return made if functions is None else {**made, "functions": functions}


@pytest.mark.parametrize(("transform", "option"), OPTIONS)
def test_another_value_of_each_option_has_its_verdict(transform, option):
    name = transform.__name__
    before, now = (applied(class_=name, **{option: value}) for value in ("a", "b"))
    decision = decided("label", before, now, transform.rules)
    kept, needs = option in OF_THE_RUN.get(name, ()), name in READS_RECORDS
    assert decision.verdict == ("kept" if kept else "needs history" if needs else "rebuilt")
    assert decision.differences == (() if kept else (f"{option} was 'a' and is 'b'",))


def test_all_transforms_have_a_rule():
    assert len(TRANSFORMS) > 15
    assert {each.__name__ for each in TRANSFORMS} >= {*OF_THE_RUN, *READS_RECORDS}


def test_a_pipeline_as_before_is_kept():
    for transform in TRANSFORMS:
        now = applied(class_=transform.__name__, inputs=[{"key": "int64", "order": "time"}], upstream=[["left"]], joiner="a")
        assert decided("label", now, now, transform.rules).verdict == "kept"


TABLE = {"key": "int64", "value": "int64", "order": "sequence", "form": "checked"}


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (applied(), applied(class_="OneToManyJoin"), "it was a ForeignKeyJoin and is a OneToManyJoin"),
        (applied(inputs=[TABLE]), applied(inputs=[{**TABLE, "key": "string"}]), "key of the input was int64 and is string"),
        (
            applied(inputs=[TABLE, TABLE]),
            applied(inputs=[TABLE, {**TABLE, "form": "unchecked"}]),
            "form of input 2 was checked and is unchecked",
        ),
        (applied(inputs=[TABLE, TABLE]), applied(inputs=[TABLE] * 3), "it had 2 inputs and has 3"),
        (
            applied(upstream=[["a"], []]),
            applied(upstream=[["b", "c"], []]),
            "it was behind a, no transform and is behind b and c, no transform",
        ),
        (
            applied(joiner="f", functions={"joiner": "1"}),
            applied(joiner="f", functions={"joiner": "2"}),
            "joiner=f is another function",
        ),
        (None, applied(), "it is new"),
    ],
)
def test_each_other_difference_rebuilds_a_transform_of_tables(before, now, why):
    decision = decided("label", before, now, OF_TABLES)
    assert decision.verdict == "rebuilt"
    assert decision.why.startswith(why)
    assert decided("label", before, now, OF_RECORDS).verdict == "needs history"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (applied(inputs=[TABLE]), applied(inputs=[{**TABLE, "value": "double"}])),
        (applied(inputs=[{**TABLE, "key": "decimal128(6, 2)"}]), applied(inputs=[{**TABLE, "key": "decimal256(12, 4)"}])),
        (applied(inputs=[{"key": "int32", "form": "int64"}]), applied(inputs=[{"key": "int64", "form": "string"}])),  # Arrow columns
        (applied(joiner="f"), applied(joiner="f", functions={"joiner": "2"})),
        ({"transform": "ForeignKeyJoin", "options": {}, "inputs": []}, applied(upstream=[["a"]])),
        (applied(inputs=[{"key": "int64", "value": "int64", "order": "time"}]), applied(inputs=[{**TABLE, "order": "time"}])),
    ],
)
def test_columns_and_what_an_earlier_version_did_not_write_are_not_compared(before, now):
    assert decided("label", before, now, OF_RECORDS).verdict == "kept"


@pytest.mark.parametrize(
    ("rules", "above", "verdict"),
    [
        (OF_TABLES, "rebuilt", "rebuilt"),
        (OF_TABLES, "needs history", "needs history"),
        (beam_joins.StreamTableJoin.rules, "rebuilt", "rebuilt"),
        (TableFromChangelog.rules, "rebuilt", "needs history"),
        (WindowedAggregate.rules, "rebuilt", "needs history"),
        (WindowedStreamJoin.rules, "rebuilt", "needs history"),
        (OF_TABLES, "kept", "kept"),
    ],
)
def test_a_transform_follows_those_in_front_of_it(rules, above, verdict):
    upstream = [Decision("one", applied(), OF_TABLES, "kept"), Decision("two", applied(), OF_TABLES, above)]
    decision = decided("label", applied(), applied(), rules, upstream)
    assert (decision.verdict, decision.upstream) == (verdict, () if above == "kept" else ("two",))
    assert above == "kept" or decision.why == "it is behind two"


def test_a_filter_of_pairs_needs_history_and_one_of_a_table_does_not():
    with beam.Pipeline() as p:
        pairs, table = p | "pairs" >> beam.Create([("k", 1)]), p | "table" >> beam.Create([Change("k", None, 1, 0, 1)])
        assert FilterTable(bool).rules_for([pairs]) == OF_RECORDS
        assert FilterTable(bool).rules_for([table]) == OF_TABLES


def test_a_function_of_another_name_and_the_same_version_is_kept_and_another_value_of_the_same_text_is_not():
    def of(text, version):
        return {**applied(joiner=text), "values": {} if version is None else {"joiner": version}}

    assert decided("label", of("made.<locals>.<lambda>", "1"), of("vectorized(other)", "1"), OF_TABLES).verdict == "kept"
    for before, now in ((of("made", "1"), of("made", "2")), (of("a b", "1"), of("a c", "1")), (of("made", None), of("made", "1"))):
        assert decided("label", before, now, OF_TABLES).verdict == "rebuilt"
    earlier = {**applied(joiner="made"), "functions": {"joiner": "0"}}
    for version, verdict in (("0", "kept"), ("1", "rebuilt")):
        now = {**of("made", "2"), "functions": {"joiner": version}}
        assert decided("label", earlier, now, OF_TABLES).verdict == verdict
