"""The report of a run: its figures are those of the results, and its page stands alone."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_joins.pipelines import join, table
from beam_joins.pipelines.changelog_files.tally import Tally
from beam_joins.pipelines.changelog_files.write_parts import Report
from beam_joins.pipelines.jobs.names import Names
from beam_joins.pipelines.orders import ORDERS
from beam_joins.pipelines.report import page
from beam_joins.pipelines.report.page import page_of
from beam_joins.pipelines.report.references import references_in
from beam_joins.pipelines.report.samples import samples_in
from beam_joins.pipelines.report.times import MOST_BUCKETS, TimeCounts, added, counted, times_in
from beam_joins.pipelines.sample import SampleFiles
from tests.pipelines.orders_run import GOOD, Run, inputs, one_sentence, read_lines, write

CHARTS = ["phases", "speeds", "over_time", "busiest", "distribution"]


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[Report]:
    """What runs have brought home for their pages."""
    brought: list[Report] = []
    write = page.write_page

    def write_page(path: str, names: Names, report: Report, seconds: dict[str, float]) -> None:
        brought.append(report)
        write(path, names, report, seconds)

    monkeypatch.setattr(page, "write_page", write_page)
    return brought


@pytest.fixture(params=["", "--beam_joins_broadcast_bytes=0"], ids=["copied customers", "shuffled customers"])
def way(request: pytest.FixtureRequest) -> list[str]:
    return [request.param] if request.param else []


def test_the_busiest_customers_are_those_with_most_changes_of_the_result(run: Run, small: SampleFiles, reports: list[Report], way):
    assert run(*inputs(small), "--output", "o.jsonl", "--report", "r.html", *way).code == 0
    changes = read_lines(Path("o.jsonl"))
    work = Counter(str((change["new"] or change["old"])["customer_id"]) for change in changes)
    found = references_in(reports[0].figures)
    assert {row["reference"]: row["results"] for row in found.busiest} == dict(sorted(work.items(), key=lambda w: (-w[1], w[0]))[:20])
    assert sum(customers for customers, _ in found.sizes.values()) == len(work)
    assert sum(of_size for _, of_size in found.sizes.values()) == len(changes)
    assert found.sizes[3] == (sum(8 <= n < 16 for n in work.values()), sum(n for n in work.values() if 8 <= n < 16))


def test_customers_that_are_not_there_are_counted_with_the_orders_that_refer_to_them(run: Run, small: SampleFiles, reports, way):
    assert run(*inputs(small), "--how", "left", "--latest", "l.jsonl", "--report", "r.html", *way).code == 0
    alone = [row["customer_id"] for row in read_lines(Path("l.jsonl")) if row["customer"] is None]
    missing = Counter(str(customer) for customer in alone if customer is not None)
    found = references_in(reports[0].figures)
    assert (found.rights_missing, found.lefts_missing) == (len(missing), missing.total())
    assert {row["reference"]: row["lefts"] for row in found.missing} == dict(sorted(missing.items(), key=lambda m: (-m[1], m[0]))[:20])
    assert found.none is not None
    assert found.none["lefts"] == alone.count(None)


def test_the_changes_over_time_are_those_of_the_result(run: Run, small: SampleFiles, reports: list[Report]):
    assert run(*inputs(small), "--output", "o.jsonl", "--report", "r.html").code == 0
    found = times_in(reports[0].figures, "result")
    assert found.counts == Counter(change["timestamp"] // found.width for change in read_lines(Path("o.jsonl")))
    read = sum(tally.records for tally in reports[0].tallies if (tally.place, tally.what) == ("orders", "read"))
    assert sum(times_in(reports[0].figures, "orders").counts.values()) == read


def test_a_report_changes_nothing_of_the_results_or_of_what_is_remembered(run: Run, small: SampleFiles):
    without = run(*inputs(small), "--output", "without.jsonl", "--latest", "latest-without.jsonl")
    with_report = run(*inputs(small), "--output", "with.jsonl", "--latest", "latest-with.jsonl", "--report", "r.html")
    assert (without.code, with_report.code) == (0, 0)
    assert sorted(read_lines(Path("with.jsonl")), key=str) == sorted(read_lines(Path("without.jsonl")), key=str)
    assert sorted(read_lines(Path("latest-with.jsonl")), key=str) == sorted(read_lines(Path("latest-without.jsonl")), key=str)


def test_runs_that_go_on_may_have_a_report_or_none(run: Run, small: SampleFiles):
    orders = Path("in")
    orders.mkdir()
    lines = small.orders.read_text().splitlines(keepends=True)
    given = ["--orders", "in", "--customers", small.customers, "--state-dir", "state", "--changes", "out", "--latest", "l.jsonl"]
    for number, report in enumerate(([], ["--report", "r.html"], [])):
        (orders / f"{number}.jsonl").write_text("".join(lines[number::3]))
        ran = run(*given, *report)
        assert ran.code == 0, ran.err
    assert Path("r.html").exists()
    assert one_sentence(run(*given, "--follow", "--report", "r.html")) == "--report is of one run: leave it out with --follow"


def test_records_that_were_dropped_are_shown_by_reason(run: Run, reports: list[Report]):
    write("o.jsonl", *({**GOOD, "order_id": key, "amount": n} for n, key in enumerate([1, 1, None, None, None, None])))
    write("c.jsonl", {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1})
    assert run("--orders", "o.jsonl", "--customers", "c.jsonl", "--latest", "l.jsonl", "--report", "r.html").code == 0
    samples = samples_in(reports[0].figures)
    assert samples.keys() == {("orders", "null_key"), ("orders", "ambiguous_position")}
    assert samples["orders", "null_key"] == [
        f'{{"order_id": null, "customer_id": 1, "amount": {n}, "updated_at": 1}}' for n in (2, 3, 4)
    ]
    (lost,) = samples["orders", "ambiguous_position"]
    assert '"amount": 0' in lost


def test_only_a_run_with_a_report_counts_for_it(run: Run, small: SampleFiles, reports: list[Report]):
    assert run(*inputs(small), "--latest", "l.jsonl", "--report", "r.html").code == 0
    assert run(*inputs(small), "--latest", "l.jsonl").code == 0
    (report,) = reports
    assert report.watched is not None
    assert {"References", "Times of result"} <= {step.name for step in report.watched.steps}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("r.htm", "--report: r.htm must end in .html"),
        ("nowhere/r.html", "--report: nowhere/r.html cannot be written: name a file in a directory that is there"),
    ],
)
def test_a_place_where_no_report_can_be_is_refused_before_the_run(run: Run, small: SampleFiles, path: str, says: str):
    assert one_sentence(run(*inputs(small), "--latest", "l.jsonl", "--report", path)) == says
    assert not Path("l.jsonl").exists()


def opened(browser: Any, path: Path) -> tuple[Any, list[str]]:
    """The page, and what it should not do: requests, errors and warnings."""
    said: list[str] = []
    shown = browser.new_page(viewport={"width": 1100, "height": 900})
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("request", lambda request: said.append(request.url))
    shown.goto(path.resolve().as_uri())
    shown.wait_for_selector("#over_time .main-svg")
    return shown, [each for each in said if each != path.resolve().as_uri()]


def test_the_page_is_drawn_in_a_browser_without_an_error_and_asks_nobody_for_anything(run: Run, small: SampleFiles, browser):
    assert run(*inputs(small), "--latest", "l.jsonl", "--output", "o.jsonl", "--report", "r.html").code == 0
    shown, said = opened(browser, Path("r.html"))
    assert said == []
    for chart in CHARTS:
        box = shown.locator(f"#{chart}").bounding_box()
        assert box["height"] > 100
        assert box["x"] + box["width"] <= 1100
        assert shown.locator(f"#{chart} .main-svg").count() > 0
    assert shown.locator("#busiest .bars .point").count() == 20
    names = shown.locator(".picture text").all_text_contents()
    assert {"Read orders", "Read customers", "Join", "Latest", "Write changes"} <= set(names)
    assert not {name for name in names if name.startswith(("Tally", "Times", "References"))}
    shown.close()


def test_the_page_of_a_run_over_nothing_is_drawn_too(tmp_path, browser):
    path = tmp_path / "r.html"
    path.write_text(
        page_of(ORDERS, Report([Tally("orders", "bad_record", 1, ("<b>bold</b>",))], []), {}, datetime(2026, 1, 2, tzinfo=UTC))
    )
    shown, said = opened(browser, path)
    assert said == []
    assert "<b>bold</b>" in shown.locator("code").all_inner_texts()
    shown.close()


@pytest.mark.parametrize(
    ("command", "options", "steps"),
    [
        (join, ["--left", "a.jsonl", "--right", "b.jsonl", "--how", "outer"], {"Read left rows", "Left rows", "Right rows", "Join"}),
        (join, ["--left", "a.jsonl", "--right", "b.jsonl", "--foreign-key", "of", "--how", "right"], {"Read right rows", "Join"}),
        (join, ["--left", "a.jsonl", "--right", "b.jsonl", "--how", "anti"], {"Join"}),
        (table, ["--input", "a.jsonl"], {"Read rows", "Rows", "Write changes"}),
    ],
)
def test_the_other_commands_have_reports_of_what_they_do(command, options, steps, own_directory, browser, capsys):
    for name in ("a", "b"):
        write(f"{name}.jsonl", *({"id": n, "of": n % 3, "op": "c", "lsn": n, "updated_at": n * 10**6} for n in range(1, 9)))
    assert command.main([*options, "--output", "o.jsonl", "--report", "r.html"]) == 0, capsys.readouterr().err
    shown, said = opened(browser, Path("r.html"))
    assert said == []
    assert steps <= set(shown.locator(".picture text").all_text_contents())
    assert shown.locator("#busiest").count() == ("--foreign-key" in options)
    shown.close()


def test_buckets_grow_wider_and_keep_their_sum_whatever_the_order():
    rng = np.random.default_rng(7)
    times = rng.integers(-(10**9), 10**13, 50_000)
    whole, parts = counted(times), added(counted(part) for part in np.array_split(rng.permutation(times), 7))
    assert len(whole.counts) <= MOST_BUCKETS
    assert parts == TimeCounts(whole.width, dict(parts.counts))
    assert (whole.width, sorted(whole.counts.items())) == (parts.width, sorted(parts.counts.items()))
    assert sum(parts.counts.values()) == len(times)


@pytest.mark.spark
def test_on_spark_the_figures_are_the_same(run: Run, small: SampleFiles, reports: list[Report]):
    for options in ([], ["--runner=SparkRunner"]):
        assert run(*inputs(small), "--latest", "l.jsonl", "--report", "r.html", *options).code == 0
    here, spark = reports
    assert references_in(here.figures) == references_in(spark.figures)
    assert times_in(here.figures, "result") == times_in(spark.figures, "result")
    assert here.watched is not None
    assert spark.watched is not None
    assert [each.rows for each in here.watched.read] == [each.rows for each in spark.watched.read] != [0, 0]
