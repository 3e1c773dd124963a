"""ForeignKeyJoin, alone and in chains, on both runners."""

import random

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import (
    Change,
    Dropped,
    FilterTable,
    ForeignKeyJoin,
    LatestTable,
    MapTable,
    TableFromChangelog,
    TableToChanges,
    TableToStream,
    content,
)

ORDERS = [
    {"id": 1, "lsn": 1, "by": "ann", "amount": 5},
    {"id": 2, "lsn": 2, "by": "bob", "amount": 7},
    {"id": 1, "lsn": 4, "by": "bob", "amount": 6},
    {"id": 3, "lsn": 5, "by": None, "amount": 1},
    {"id": 4, "lsn": 6, "by": "nobody", "amount": 2},
    {"id": 2, "lsn": 8, "by": "bob", "amount": None},
]
CUSTOMERS = [
    {"id": "bob", "lsn": 3, "name": "Bob"},
    {"id": "ann", "lsn": 4, "name": "Ann"},
    {"id": "bob", "lsn": 7, "name": "Bobby"},
    {"id": "bob", "lsn": 9, "name": None},
]
INNER = [
    Change(2, None, "7 Bob", 3, 3),
    Change(1, None, "6 Bob", 4, 4),
    Change(1, "6 Bob", "6 Bobby", 7, 7),
    Change(2, "7 Bob", "7 Bobby", 7, 7),
    Change(2, "7 Bobby", None, 8, 8),
    Change(1, "6 Bobby", None, 9, 9),
]
LEFT = [
    Change(1, None, "5 -", 1, 1),
    Change(2, None, "7 -", 2, 2),
    Change(2, "7 -", "7 Bob", 3, 3),
    Change(1, "5 -", "6 Bob", 4, 4),
    Change(3, None, "1 -", 5, 5),
    Change(4, None, "2 -", 6, 6),
    Change(1, "6 Bob", "6 Bobby", 7, 7),
    Change(2, "7 Bob", "7 Bobby", 7, 7),
    Change(2, "7 Bobby", None, 8, 8),
    Change(1, "6 Bobby", "6 -", 9, 9),
]


def tables(p, *, seed=0, tag="", **options):
    shuffle = random.Random(seed)
    orders = shuffle.sample(ORDERS, len(ORDERS))
    customers = shuffle.sample(CUSTOMERS, len(CUSTOMERS))
    cdc = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn", **options}
    return (
        p
        | f"orders{tag}" >> beam.Create(orders)
        | f"order table{tag}" >> TableFromChangelog(**cdc, apply_as_deletes=lambda r: r["amount"] is None),
        p
        | f"customers{tag}" >> beam.Create(customers)
        | f"customer table{tag}" >> TableFromChangelog(**cdc, apply_as_deletes=lambda r: r["name"] is None),
    )


def joiner(order, customer):
    return f"{order['amount']} {customer['name'] if customer else '-'}"


def referred(key, order):
    return order["by"]


SEMI = [
    Change(2, None, 7, 3, 3),
    Change(1, None, 6, 4, 4),
    Change(2, 7, None, 8, 8),
    Change(1, 6, None, 9, 9),
]
ANTI = [
    Change(1, None, 5, 1, 1),
    Change(2, None, 7, 2, 2),
    Change(2, 7, None, 3, 3),
    Change(1, 5, None, 4, 4),
    Change(3, None, 1, 5, 5),
    Change(4, None, 2, 6, 6),
    Change(1, None, 6, 9, 9),
]


def amount(order):
    return order["amount"]


@pytest.mark.slow
@pytest.mark.parametrize("broadcast", [False, True], ids=["shuffled", "broadcast"])
@pytest.mark.parametrize("partitions", [1, 7])
@pytest.mark.each_value
def test_a_join_is_the_same_in_any_order_and_partitioning_on_every_runner(pipeline, partitions, broadcast):
    with pipeline(partitions) as p:
        for how, expected in (("inner", INNER), ("left", LEFT), ("semi", SEMI), ("anti", ANTI)):
            tag = f" {how}"
            join = ForeignKeyJoin(joiner if expected in (INNER, LEFT) else amount, foreign_key=referred, how=how, broadcast=broadcast)
            joined = tables(p, seed=partitions, tag=tag) | f"join{tag}" >> join | f"changes{tag}" >> TableToChanges()
            assert_that(joined, equal_to(expected), label=f"is the join{tag}")


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_without_a_joiner_the_rows_of_a_semi_or_anti_join_are_the_left_ones(direct, how):
    with direct() as p:
        both = tables(p)
        joined = both | ForeignKeyJoin(foreign_key="by", how=how) | "changes" >> TableToChanges()
        amounts = joined | beam.Map(
            lambda change: change._replace(old=change.old and change.old["amount"], new=change.new and change.new["amount"])
        )
        assert_that(amounts, equal_to(SEMI if how == "semi" else ANTI))


def test_a_chain_of_every_transform_twice_loses_nothing_on_every_runner(pipeline):
    """Stateful DoFns that share a timer id lose data on the direct runner: every use has ids of its own."""
    with pipeline() as p:
        # in milliseconds, which the times of the stream's elements are
        orders, customers = tables(p, timestamp_by=lambda row: row["lsn"] * 1000)
        chain = (orders, customers) | "first" >> ForeignKeyJoin(
            lambda order, customer: {**order, "name": customer["name"]}, foreign_key="by"
        )
        chain = (chain, customers) | "second" >> ForeignKeyJoin(
            lambda order, customer: {**order, "again": customer["name"]}, foreign_key="by", how="left"
        )
        chain = chain | "map 1" >> MapTable(lambda key, row: f"{row['amount']} {row['name']} {row['again']}")
        chain = (
            chain | "keep" >> FilterTable(lambda key, text: text.startswith("6")) | "map 2" >> MapTable(lambda key, text: text.upper())
        )
        chain = chain | "keep again" >> FilterTable(lambda key, text: "BOBBY" in text, negate=True)
        bob, gone = Change(1, None, "6 BOB BOB", 4000, 4), Change(1, "6 BOB BOB", None, 7000, 7)
        assert_that(chain | "chain's changes" >> TableToChanges(), equal_to([bob, gone]), label="changes")
        again = chain | "stream" >> TableToStream() | "once more" >> TableFromChangelog()
        assert_that(
            again | "again's changes" >> TableToChanges(),
            equal_to([bob._replace(position=4000), gone._replace(position=7000)]),
            label="again",
        )
        latest = orders | "latest 1" >> LatestTable() | beam.Map(lambda row: (row[0], row[1]["amount"]))
        assert_that(latest, equal_to([(1, 6), (3, 1), (4, 2)]), label="latest orders")
        assert_that(again | "latest 2" >> LatestTable(), equal_to([]), label="nothing is left")


def test_what_comes_out_is_a_table_with_event_times(direct):
    with direct() as p:
        joined = tables(p) | ForeignKeyJoin(joiner, foreign_key="by", how="left") | TableToChanges()
        timed = joined | beam.Map(lambda change, time=beam.DoFn.TimestampParam: (change, time.micros))

        def check(outputs):
            assert all(change.timestamp == time for change, time in outputs)
            assert content([change for change, _ in outputs]) == {1: "6 -", 3: "1 -", 4: "2 -"}

        assert_that(timed, check)


@pytest.mark.parametrize("broadcast", [False, True], ids=["shuffled", "broadcast"])
def test_an_inner_join_drops_null_foreign_keys_and_says_so(direct, broadcast):
    with direct() as p:
        outputs = tables(p) | ForeignKeyJoin(joiner, foreign_key=referred, broadcast=broadcast).with_outputs()
        assert_that(outputs.table | TableToChanges(), equal_to(INNER), label="the table")
        null = Change(3, None, ORDERS[3], 5, 5)
        assert_that(outputs.dropped, equal_to([Dropped("null_foreign_key", null, 5)]), label="the dropped")


def test_a_left_join_drops_nothing(direct):
    with direct() as p:
        outputs = tables(p) | ForeignKeyJoin(joiner, foreign_key=referred, how="left").with_outputs()
        assert_that(outputs.dropped, equal_to([]))


def test_more_records_than_a_block_holds_are_all_joined(pipeline):
    count = 10_000
    with pipeline() as p:
        left = p | "left" >> beam.Create(range(count)) | beam.Map(lambda i: Change(i, None, i % 3, i, i))
        right = p | "right" >> beam.Create([Change(i, None, "abc"[i], 0, -1) for i in range(2)])
        joined = (left, right) | ForeignKeyJoin(lambda number, letter: letter, foreign_key=lambda key, value: value)
        counts = joined | TableToChanges() | beam.Map(lambda change: change.new) | beam.combiners.Count.PerElement()
        assert_that(counts, equal_to([("a", 3334), ("b", 3333)]))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"how": "full"}, "how='full': choose one of 'inner', 'left', 'right', 'outer', 'semi', 'anti'"),
        ({"foreign_keys": referred}, "give one of foreign_key, for one reference, and foreign_keys"),
        ({"foreign_key": None, "foreign_keys": referred, "how": "anti", "joiner": None}, "how='anti' asks for the one row that"),
        ({"joiner": None}, "joiner=None: give a function of the left and the right value"),
        ({"joiner": "amount", "how": "semi"}, "joiner='amount': give a function of the left value"),
        ({"how": "outer", "broadcast": True}, "broadcast=True joins left rows where they are"),
        ({"foreign_key": 7}, "foreign_key=7: give a field name, a list of field names, or a function of key and value"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        ForeignKeyJoin(**{"foreign_key": referred, "joiner": joiner, **options})


def test_what_is_not_two_tables_is_refused(direct):
    p = direct()
    orders, customers = tables(p)
    with pytest.raises(ValueError, match="two tables"):
        _ = orders | ForeignKeyJoin(joiner, foreign_key=referred)
    by_time = p | beam.Create([("k", 1)]) | "by time" >> TableFromChangelog()
    with pytest.raises(ValueError, match="give sequence_by= to both"):
        _ = (orders, by_time | FilterTable(lambda key, value: True)) | "mixed" >> ForeignKeyJoin(joiner, foreign_key=referred)


@pytest.mark.parametrize("broadcast", [False, True], ids=["shuffled", "broadcast"])
def test_foreign_keys_that_no_right_key_can_equal_fail_the_run(direct, broadcast):
    with pytest.raises(Exception, match="the foreign keys are of kind number, the right table's keys of kind text"), direct() as p:
        left = p | "left" >> beam.Create([Change(1, None, 7, 0, 1), Change(2, None, 8, 0, 1)])
        right = p | "right" >> beam.Create([Change("7", None, "seven", 0, 1)])
        join = ForeignKeyJoin(lambda left, right: right, foreign_key=lambda key, value: value, broadcast=broadcast)
        _ = (left, right) | join


def test_a_foreign_key_of_another_type_than_the_right_key_is_named(direct):
    with pytest.raises(Exception, match="the foreign key 7 of type int cannot be written"), direct() as p:
        left = p | "left" >> beam.Create([("k", 7)]) | "left table" >> TableFromChangelog()
        right = p | "right" >> beam.Create([("7", "seven")]) | "right table" >> TableFromChangelog()
        _ = (left, right) | ForeignKeyJoin(lambda left, right: right, foreign_key=lambda key, value: value)
