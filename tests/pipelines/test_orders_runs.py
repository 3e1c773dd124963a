"""python -m pipelines.orders --state-dir: several runs give what one run gives, and each reads only what is
new.
"""

import json
import os
from pathlib import Path

import pytest

from beam_joins import StateFolder
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.transforms.engine.stages import partitions
from tests.pipelines.history import BOTH, FORMATS, IN_RUNS, arrive, changes, cut, records, tree
from tests.pipelines.naive_orders import Row, in_order
from tests.pipelines.orders_run import GOOD, Run, changes_in, naive, numbers, one_sentence

CUSTOMER = {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1}


def sorted_rows(rows: list[Row]) -> list[str]:
    return sorted(map(json.dumps, rows))


IN_EACH_FORMAT = [pytest.param(each, "inner", marks=[] if each == "avro" else pytest.mark.sweep) for each in FORMATS]


@pytest.mark.slow
@pytest.mark.parametrize(("format_", "how"), [*IN_EACH_FORMAT, ("jsonl", "left")])
def test_a_history_in_three_runs_gives_what_the_naive_job_gives_at_once(run: Run, small: SampleFiles, format_: str, how: str) -> None:
    suffix = "avro" if format_ == "avro" else "jsonl"
    places = ["--changes", f"out/c-*.{suffix}", "--latest", f"out/latest.{suffix}", "--how", how]
    pieces = cut(small, 3)
    for number, piece in enumerate(pieces, 1):
        arrive(number, piece, format_)
        ran = run(*IN_RUNS, *places)
        assert ran.code == 0, ran.err
        assert numbers(ran.out)["records in", "orders"] == len(piece["orders"])
    answer = naive(small, how=how)
    assert changes_in(changes(f"out/c-*.{suffix}")) == in_order(answer.changes)
    assert sorted_rows(records(Path(f"out/latest.{suffix}"))) == sorted_rows(list(answer.latest.values()))
    assert f"of {len(naive(small, how='left').latest):,} final rows" in ran.out
    assert ("late", "orders") not in numbers(ran.out)


@pytest.mark.slow
@pytest.mark.parametrize("least", [pytest.param(None, marks=pytest.mark.sweep), 60])
def test_the_files_of_several_runs_are_byte_for_byte_that_of_one_run(
    run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch, least: int | None
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.results.sorted_output._WINDOW", 700)
    more = [] if least is None else ["--min-amount", least]
    for number, piece in enumerate(cut(small, 4), 1):
        arrive(number, piece)
        assert run(*BOTH, *more).code == 0
    ran = run(*IN_RUNS[:-1], "other", "--changes", "once", "--latest", "once/latest.jsonl", *more)
    assert ran.code == 0, ran.err
    together = b"".join(path.read_bytes() for path in sorted(Path("out/changes").iterdir()))
    assert together == Path("once/changes-000001.jsonl").read_bytes()
    assert Path("out/latest.jsonl").read_bytes() == Path("once/latest.jsonl").read_bytes()
    whole = ["--orders", "in/orders/*", "--customers", "in/customers/*", "--output", "whole.jsonl", "--latest", "rows.jsonl"]
    assert run(*whole, "--beam_joins_partitions=3", *more).code == 0
    assert together == Path("whole.jsonl").read_bytes(), "--output has the order of --changes, whatever the partitions are"
    assert Path("rows.jsonl").read_bytes() == Path("once/latest.jsonl").read_bytes()
    positions = [change["position"] for change in changes()]
    assert positions == sorted(positions)
    assert positions


def test_a_state_that_grows_has_more_partitions_and_its_runs_give_the_bytes_of_one(
    run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = list[int | None]()
    for number, piece in enumerate(cut(small, 3), 1):
        monkeypatch.setattr(partitions, "GROWING_WORTHWHILE_BYTES", 1 << 30 if number == 1 else 1)
        arrive(number, piece)
        assert run(*BOTH).code == 0
        counts.append(StateFolder.summary(IN_RUNS[-1]).partitions)
    assert counts == [1, partitions.GROWING_PARTITIONS, partitions.GROWING_PARTITIONS]
    assert run(*IN_RUNS[:-1], "other", "--changes", "once", "--latest", "once/latest.jsonl").code == 0
    together = b"".join(path.read_bytes() for path in sorted(Path("out/changes").iterdir()))
    assert together == Path("once/changes-000001.jsonl").read_bytes()
    assert Path("out/latest.jsonl").read_bytes() == Path("once/latest.jsonl").read_bytes()


def test_without_new_files_nothing_is_touched(run: Run, small: SampleFiles) -> None:
    arrive(1, cut(small, 1)[0])
    assert run(*BOTH).code == 0
    present = {**tree(), **tree("state")}
    Path("in/orders/001.jsonl").touch()
    ran = run(*BOTH)
    assert (ran.code, ran.out) == (0, "no new files: nothing to do\n")
    assert {**tree(), **tree("state")} == present


@pytest.mark.slow
def test_a_file_that_is_gone_is_no_problem_and_one_that_has_changed_is_refused(run: Run, small: SampleFiles) -> None:
    for number, piece in enumerate(cut(small, 2), 1):
        arrive(number, piece)
        if number == 2:
            Path("in/orders/001.jsonl").unlink()
        assert run(*BOTH).code == 0
    present = tree()
    path = Path("in/orders/002.jsonl")
    written, as_it_was = path.stat(), path.read_bytes()
    for keeps_its_time in (False, True):
        path.write_bytes(as_it_was.replace(b"1", b"2", 1))
        if keeps_its_time:
            os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
        assert one_sentence(run(*BOTH)) == (
            "orders: in/orders/002.jsonl has changed since a run has read it: put it back as it was, and new records into a new file"
        )
        assert tree() == present
    path.write_bytes(as_it_was)
    assert run(*BOTH).out == "no new files: nothing to do\n"


@pytest.mark.slow
def test_an_option_that_is_another_than_before_is_refused_by_name(run: Run, small: SampleFiles) -> None:
    for number, piece in enumerate(cut(small, 2), 1):
        arrive(number, piece)
        if number == 1:
            assert run(*BOTH).code == 0
    present = tree()
    for options, message in (
        (["--how", "left"], "--how is left, but inner in the runs before: give it as it was, or --beam_joins_changed=rebuild, which"),
        (["--min-amount", "5"], "--min-amount is 5, but not given in the runs before"),
        (
            ["--orders-key", "id"],
            "--orders-key is id, but order_id in the runs before: give it as it was, or --read-again orders, which",
        ),
        (
            ["--orders-sequence-by", "other"],
            "--orders-sequence-by is other, but lsn in the runs before: give it as it was, or another",
        ),
        (
            ["--foreign-key", "other"],
            "--foreign-key is other, but customer_id in the runs before: give it as it was, or --read-again orders",
        ),
        (["--latest="], "--latest is not given, but json lines in the runs before"),
    ):
        assert message in one_sentence(run(*BOTH, *options))
        assert tree() == present, options
    assert run(*BOTH, "--on-bad-record=drop").code == 0, "how a run treats bad records is its own affair"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--changes", "out/changes"], "--changes is for incremental runs: give --state-dir too"),
        (["--follow"], "--follow is for incremental runs: give --state-dir too"),
        (["--whole-files"], "--whole-files is for --follow"),
        (["--state-dir", "s", "--output", "o.jsonl"], "with --state-dir name a folder with --changes"),
        (["--state-dir", "s", "--latest", "l.jsonl", "--parts"], "--parts is for a run that stands alone"),
        (["--state-dir", "s"], "no result is named: with --state-dir give --changes, --latest or --to"),
        (["--state-dir", "s", "--changes", "c.jsonl"], "--changes: c.jsonl is one file"),
        (["--state-dir", "s", "--changes", "c*/*.jsonl"], "has another * than one"),
        (["--state-dir", "s", "--changes", "c-*.txt"], "must end in .avro, .jsonl"),
        (["--state-dir", "s", "--changes", "in/orders/c-*.jsonl"], "--orders in/orders would read what is written"),
        (["--state-dir", "s", "--latest", "in/customers/l.jsonl"], "--customers in/customers would read what is written"),
        (
            ["--state-dir", "s", "--latest", "l.jsonl", "--json", "in/orders/s.json"],
            "--json: --orders in/orders would read what is written",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, small: SampleFiles, options: list[str], message: str) -> None:
    arrive(1, cut(small, 1)[0])
    assert message in one_sentence(run(*IN_RUNS[:4], *options))
    assert not Path("s").exists()


def test_a_dry_run_of_a_run_that_goes_on_says_what_that_would_write_and_no_more(run: Run, small: SampleFiles) -> None:
    arrive(1, cut(small, 1)[0])
    ran = run(*IN_RUNS[:4], "--state-dir", "s", "--changes", "out/changes", "--dry-run")
    assert "out/changes/changes-*.jsonl" in ran.out, ran
    assert "latest" not in ran.out


def test_a_run_with_a_state_needs_inputs_and_the_first_one_files_of_both(run: Run, small: SampleFiles) -> None:
    assert "--state-dir needs --orders and --customers" in one_sentence(run("--state-dir", "s", "--latest", "l.jsonl"))
    arrive(1, {**cut(small, 1)[0], "customers": []})
    assert one_sentence(run(*BOTH)) == "customers: there is no file in/customers"


@pytest.mark.slow
def test_a_run_may_have_new_files_of_one_input_only(run: Run, small: SampleFiles) -> None:
    whole = cut(small, 1)[0]
    last = max(row["lsn"] for rows in whole.values() for row in rows) + 1
    arrive(1, whole)
    assert run(*BOTH).code == 0
    bought = records(Path("out/latest.jsonl"))[0]["customer_id"]
    later = {**whole["customers"][-1], "customer_id": bought, "op": "u", "lsn": last + 1, "name": "Nemo"}
    arrive(2, {"orders": [], "customers": [later]})
    ran = run(*BOTH)
    assert ran.code == 0, ran.err
    assert {change["new"]["customer"]["name"] for change in records(Path("out/changes/changes-000002.jsonl"))} == {"Nemo"}
    arrive(3, {"orders": [{**GOOD, "order_id": 10**6, "customer_id": bought, "lsn": last + 2}], "customers": []})
    assert run(*BOTH).code == 0
    (change,) = records(Path("out/changes/changes-000003.jsonl"))
    assert (change["op"], change["new"]["customer"]["name"]) == ("insert", "Nemo")


def test_late_records_are_counted_and_the_table_is_right_from_then_on(run: Run) -> None:
    arrive(1, {"orders": [{**GOOD, "lsn": 5}, {**GOOD, "order_id": 2, "lsn": 9}], "customers": [CUSTOMER]})
    assert run(*BOTH).code == 0
    late = [{**GOOD, "amount": 7, "lsn": 6}, {**GOOD, "order_id": 2, "lsn": 3}]
    arrive(2, {"orders": late, "customers": []})
    ran = run(*BOTH)
    assert ran.code == 0, ran.err
    assert (numbers(ran.out)["late", "orders"], "(late_applied)" in ran.out, "(late_stale)" in ran.out) == (1, True, True)
    assert [(change["key"], change["new"]["amount"]) for change in records(Path("out/changes/changes-000002.jsonl"))] == [(1, 7)]
    assert sorted(row["amount"] for row in records(Path("out/latest.jsonl"))) == [1.5, 7]


def test_late_records_that_are_not_applied_may_fail_a_run_which_then_counts_for_nothing(run: Run) -> None:
    arrive(1, {"orders": [{**GOOD, "lsn": 5}, {**GOOD, "order_id": 2, "lsn": 9}], "customers": [CUSTOMER]})
    assert run(*BOTH, "--on-late=fail").code == 0
    arrive(2, {"orders": [{**GOOD, "amount": 7, "lsn": 6}], "customers": []})
    assert run(*BOTH, "--on-late=fail").code == 0
    before = Path("out/latest.jsonl").read_bytes()
    arrive(3, {"orders": [{**GOOD, "order_id": 2, "lsn": 3}], "customers": []})
    ran = run(*BOTH, "--on-late=fail")
    assert (ran.code, "orders: 1 record came late and is older than" in ran.err) == (2, True), ran.err
    assert ran.err.endswith("(late_stale): nothing of this run counts; --on-late=drop goes on without such records\n")
    assert Path("out/latest.jsonl").read_bytes() == before
    assert not Path("out/changes/changes-000003.jsonl").exists()
    assert run(*BOTH).code == 0


@pytest.mark.slow
def test_types_of_csv_columns_stay_those_of_the_first_run(run: Run) -> None:
    arrive(1, {"orders": [{**GOOD, "note": "x7", "lsn": 5}], "customers": [CUSTOMER]}, "csv")
    assert run(*BOTH).code == 0
    arrive(2, {"orders": [{**GOOD, "order_id": 2, "note": "7", "lsn": 6}], "customers": []}, "csv")
    assert run(*BOTH).code == 0
    assert sorted(row["note"] for row in records(Path("out/latest.jsonl"))) == ["7", "x7"]
    arrive(3, {"orders": [{**GOOD, "order_id": "three", "note": "", "lsn": 7}], "customers": []}, "csv")
    assert "orders: in/orders/003.csv, line 2: column 'order_id' is not of type int64: 'three'" in one_sentence(run(*BOTH))


@pytest.mark.parametrize("suffix", ["avro", "parquet"])
def test_results_in_typed_columns_have_the_types_of_the_first_run(run: Run, small: SampleFiles, suffix: str) -> None:
    places = ["--latest", f"out/latest.{suffix}"]
    first, second = cut(small, 2)
    arrive(1, first, "avro")
    assert run(*IN_RUNS, *places).code == 0
    arrive(2, second, "jsonl")
    assert "/002.jsonl, line 1: column 'updated_at' is not of type timestamp[us, tz=UTC]: " in one_sentence(run(*IN_RUNS, *places))


@pytest.mark.slow
def test_a_failed_run_leaves_everything_as_it_was_and_the_next_one_reads_its_files(run: Run, small: SampleFiles) -> None:
    first, second = cut(small, 2)
    arrive(1, first)
    assert run(*BOTH).code == 0
    present = tree()
    arrive(2, second)
    Path("in/orders/003.jsonl").write_text("{oops\n")
    assert "in/orders/003.jsonl, line 1: not JSON" in one_sentence(run(*BOTH))
    assert tree() == present
    Path("in/orders/003.jsonl").unlink()
    assert run(*BOTH).code == 0
    assert changes_in(changes()) == in_order(naive(small).changes)


def test_changes_of_another_state_are_never_replaced(run: Run, small: SampleFiles) -> None:
    arrive(1, cut(small, 1)[0])
    assert run(*BOTH).code == 0
    assert "out/changes/changes-000001.jsonl is there already" in one_sentence(run(*BOTH, "--state-dir", "other"))


@pytest.mark.sweep
@pytest.mark.spark
def test_on_spark_three_runs_give_the_bytes_that_the_direct_runner_gives(run: Run, small: SampleFiles) -> None:
    for number, piece in enumerate(cut(small, 3), 1):
        arrive(number, piece)
        for runner, place in (("DirectRunner", "direct"), ("SparkRunner", "spark")):
            ran = run(
                *IN_RUNS[:-1], f"state-{place}", "--changes", f"out/{place}", "--latest", f"out/{place}.jsonl", f"--runner={runner}"
            )
            assert ran.code == 0, ran.err
    assert [path.read_bytes() for path in sorted(Path("out/spark").iterdir())] == [
        path.read_bytes() for path in sorted(Path("out/direct").iterdir())
    ]
    assert Path("out/spark.jsonl").read_bytes() == Path("out/direct.jsonl").read_bytes()


def test_a_first_run_that_cannot_tell_of_which_kind_keys_are_is_refused(run: Run, own_directory: Path) -> None:
    arrive(1, {"orders": [{**GOOD, "customer_id": None}], "customers": [{**CUSTOMER, "customer_id": None}]})
    assert "the first customers have no key among them" in one_sentence(run(*BOTH))
    assert not Path("state/manifest.json").exists()
    arrive(2, {"orders": [], "customers": [CUSTOMER]})
    assert run(*BOTH).code == 0
