"""The report of a run: its figures are those of the results, and its page can be read in both modes, at any
width.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from beam_joins.pipelines import join, table
from beam_joins.pipelines.changelogs.read_log import WasRead
from beam_joins.pipelines.commands.engine_figures import EngineFigures, StepFigures
from beam_joins.pipelines.commands.report import page
from beam_joins.pipelines.commands.report.page import page_of
from beam_joins.pipelines.commands.run_progress import Step, Watched, WatchedReport
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.commands.summary import Summary
from beam_joins.pipelines.formats.changelog_columns import REFERENCE
from beam_joins.pipelines.orders import ORDERS
from beam_joins.pipelines.results.count_figures import count_times
from beam_joins.pipelines.results.counts import Tally
from beam_joins.pipelines.results.figure import MOST_BUCKETS, Figure, TimeCounts, add_times, references_in, samples_in, times_in
from beam_joins.pipelines.results.write_parts import Report, WrittenPart
from tests.pipelines.orders_run import GOOD, Run, inputs, one_sentence, read_lines, write
from tests.programs import chromium, needed

TEXTS = """() => {
    const shown = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
    const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const light = (color) => {
        const [red, green, blue] = color.match(/[0-9.]+/g).map(Number);
        return 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
    };
    const ground = (element) => {
        const rect = element.ownerSVGElement && element.parentElement.querySelector("rect");
        if (rect) return getComputedStyle(rect).fill;
        const color = getComputedStyle(element).backgroundColor;
        return color === "rgba(0, 0, 0, 0)" ? ground(element.parentElement) : color;
    };
    while (walk.nextNode()) {
        const element = walk.currentNode.parentElement, style = getComputedStyle(element);
        const lights = [light(element.ownerSVGElement ? style.fill : style.color), light(ground(element))].sort((a, b) => b - a);
        range.selectNodeContents(walk.currentNode);
        for (const box of range.getClientRects())
            if (walk.currentNode.data.trim())
                shown.push([walk.currentNode.data, box.left, box.top, box.right, box.bottom,
                    (lights[0] + 0.05) / (lights[1] + 0.05), element.closest(".wide") !== null]);
    }
    return shown;
}"""
"""Every line of text that a page shows: where it lies, its contrast, and whether what it lies in scrolls."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = needed("Chromium", chromium())
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[Summary]:
    """What runs have brought home for their pages."""
    brought: list[Summary] = []
    write = page.write_page

    def write_page(path: str, summary: Summary) -> None:
        brought.append(summary)
        write(path, summary)

    monkeypatch.setattr(page, "write_page", write_page)
    return brought


@pytest.fixture(params=["", "--beam_joins_broadcast_bytes=0"], ids=["copied customers", "shuffled customers"])
def way(request: pytest.FixtureRequest) -> list[str]:
    return [request.param] if request.param else []


def test_the_busiest_customers_are_those_with_most_changes_of_the_result(run: Run, small: SampleFiles, reports: list[Summary], way):
    assert run(*inputs(small), "--output", "o.jsonl", "--report", "r.html", *way).code == 0
    changes = read_lines(Path("o.jsonl"))
    work = Counter(str((change["new"] or change["old"])["customer_id"]) for change in changes)
    counts = references_in(reports[0].figures)
    assert counts is not None
    assert {row[REFERENCE]: row["results"] for row in counts.busiest} == dict(sorted(work.items(), key=lambda w: (-w[1], w[0]))[:20])
    assert sum(customers for customers, _ in counts.sizes.values()) == len(work)
    assert sum(of_size for _, of_size in counts.sizes.values()) == len(changes)
    assert counts.sizes[3] == (sum(8 <= n < 16 for n in work.values()), sum(n for n in work.values() if 8 <= n < 16))


def test_customers_that_are_not_there_are_counted_with_the_orders_that_refer_to_them(run: Run, small: SampleFiles, reports, way):
    assert run(*inputs(small), "--how", "left", "--latest", "l.jsonl", "--report", "r.html", *way).code == 0
    alone = [row["customer_id"] for row in read_lines(Path("l.jsonl")) if row["customer"] is None]
    missing = Counter(str(customer) for customer in alone if customer is not None)
    counts = references_in(reports[0].figures)
    assert counts is not None
    assert (counts.rights_missing, counts.lefts_missing) == (len(missing), missing.total())
    assert {row[REFERENCE]: row["lefts"] for row in counts.missing} == dict(sorted(missing.items(), key=lambda m: (-m[1], m[0]))[:20])
    assert counts.none is not None
    assert counts.none["lefts"] == alone.count(None)


def test_the_changes_over_time_are_those_of_the_result(run: Run, small: SampleFiles, reports: list[Summary]):
    assert run(*inputs(small), "--output", "o.jsonl", "--report", "r.html").code == 0
    times = times_in(reports[0].figures, "result")
    assert times.counts == Counter(change["timestamp"] // times.width for change in read_lines(Path("o.jsonl")))
    assert sum(times_in(reports[0].figures, "orders").counts.values()) == reports[0].read("orders")


@pytest.mark.slow
def test_a_report_changes_nothing_of_the_results_or_of_what_is_remembered(run: Run, small: SampleFiles):
    without = run(*inputs(small), "--output", "without.jsonl", "--latest", "latest-without.jsonl")
    with_report = run(*inputs(small), "--output", "with.jsonl", "--latest", "latest-with.jsonl", "--report", "r.html")
    assert (without.code, with_report.code) == (0, 0)
    assert sorted(read_lines(Path("with.jsonl")), key=str) == sorted(read_lines(Path("without.jsonl")), key=str)
    assert sorted(read_lines(Path("latest-with.jsonl")), key=str) == sorted(read_lines(Path("latest-without.jsonl")), key=str)


@pytest.mark.slow
def test_runs_that_go_on_may_have_a_report_or_none(run: Run, small: SampleFiles):
    orders = Path("in")
    orders.mkdir()
    lines = small.orders.read_text().splitlines(keepends=True)
    options = ["--orders", "in", "--customers", small.customers, "--state-dir", "state", "--changes", "out", "--latest", "l.jsonl"]
    for number, report in enumerate(([], ["--report", "r.html"], [])):
        (orders / f"{number}.jsonl").write_text("".join(lines[number::3]))
        ran = run(*options, *report)
        assert ran.code == 0, ran.err
    assert Path("r.html").exists()
    assert one_sentence(run(*options, "--follow", "--report", "r.html")) == "--report is of one run: leave it out with --follow"


def test_records_that_were_dropped_are_shown_by_reason(run: Run, reports: list[Summary]):
    write("o.jsonl", *({**GOOD, "order_id": key, "amount": n} for n, key in enumerate([1, 1, None, None, None, None])))
    write("c.jsonl", {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1})
    assert run("--orders", "o.jsonl", "--customers", "c.jsonl", "--latest", "l.jsonl", "--report", "r.html").code == 0
    samples = samples_in(reports[0].figures)
    assert samples.keys() == {("orders", "null_key"), ("orders", "ambiguous_position")}
    assert samples["orders", "null_key"] == [f'{{"order_id":null,"customer_id":1,"amount":{n},"updated_at":1}}' for n in (2, 3, 4)]
    (lost,) = samples["orders", "ambiguous_position"]
    assert '"amount":0' in lost


@pytest.mark.slow
def test_only_a_run_with_a_report_counts_for_it(run: Run, small: SampleFiles, reports: list[Summary]):
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


def opened(browser: Any, path: Path, width: int = 1100, mode: str = "light") -> tuple[Any, list[str]]:
    """The page, and what it should not do: requests, errors and warnings."""
    complaints: list[str] = []
    shown = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=mode)
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on("request", lambda request: complaints.append(request.url))
    shown.goto(path.resolve().as_uri())
    return shown, [each for each in complaints if each != path.resolve().as_uri()]


def overlapping(texts: list[Any]) -> list[tuple[str, str]]:
    """The texts of which one lies on another."""
    boxes = [(text[0], *text[1:5]) for text in texts]
    return [
        (text, other)
        for n, (text, left, top, right, bottom) in enumerate(boxes)
        for other, other_left, other_top, other_right, other_bottom in boxes[n + 1 :]
        if min(right, other_right) - max(left, other_left) > 1 and min(bottom, other_bottom) - max(top, other_top) > 1
    ]


def require_legible(browser: Any, path: Path) -> None:
    """Look at a page in both modes and three widths, of which one is a phone's."""
    for mode in ("light", "dark"):
        for width in (360, 768, 1280):
            shown, complaints = opened(browser, path, width, mode)
            texts = shown.evaluate(TEXTS)
            assert complaints == []
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            assert [text for text, left, _, right, *_, scrolls in texts if not scrolls and not 0 <= left <= right <= width] == []
            assert [text for text, _, top, _, bottom, *_ in texts if bottom - top < 11] == []
            assert overlapping(texts) == []
            assert (
                shown.evaluate("[...document.querySelectorAll('.tile b')].map((tile) => tile.offsetHeight).filter((n) => n > 32)")
                == []
            )
            assert [(text, contrast) for text, *_, contrast, _ in texts if contrast < 4.5] == []
            boxes = shown.evaluate("[...document.querySelectorAll('.steps text')].map((text) => text.getBBox().width)")
            assert [width for width in boxes if width > 142] == []
            assert (
                shown.evaluate("getComputedStyle(document.body).backgroundColor")
                == {
                    "light": "rgb(255, 255, 255)",
                    "dark": "rgb(20, 24, 31)",
                }[mode]
            )
            shown.close()


def test_the_page_of_a_run_is_legible_in_both_modes_and_three_widths(run: Run, small: SampleFiles, browser):
    assert run(*inputs(small), "--how", "left", "--latest", "l.jsonl", "--output", "o.jsonl", "--report", "r.html").code == 0
    assert Path("r.html").stat().st_size < 100_000
    require_legible(browser, Path("r.html"))
    shown, _ = opened(browser, Path("r.html"))
    assert shown.title() == "Left join of orders.jsonl and customers.jsonl"
    assert shown.locator("#busiest .bar").count() == 20
    assert shown.locator("#slowest").inner_text().startswith("The slowest stage, ")
    assert shown.locator(".bar.marked").count() == shown.locator(".steps rect.marked").count() == 1
    names = shown.locator(".steps text").all_text_contents()
    assert {"Orders", "Customers", "Join", "Latest", "Write changes"} <= set(names)
    assert not {name for name in names if name.startswith(("Tally", "Times", "References"))}
    shown.close()


def test_the_page_of_a_large_run_with_long_names_is_legible(tmp_path, browser):
    many = 987_654_321_987
    busiest = [{REFERENCE: "K" * 90 + str(n), "results": many - n, "lefts": many, "rights": 1, "changed": many} for n in range(20)]
    missing = [{**row, "example": "E" * 90} for row in busiest]
    sizes = {n: [many, many] for n in range(40)}
    bars = [(hour, many + hour) for hour in range(3_000)]
    figures = [
        Figure("references", "", [busiest, missing, None, sizes, many, many]),
        *(Figure("times", place, [3_600_000_000, bars]) for place in ("orders", "customers", "result")),
        Figure("sample", "orders", ["null_key", ["S" * 400]]),
    ]
    names = ("Orders", "Customers", "Join", "Latest")
    engine = EngineFigures({name: StepFigures(many, many, many, 86_400.5) for name in names})
    steps = (Step("Orders", ()), Step("Join", ("Orders",)), Step("Write latest", ("Join",)))
    report = WatchedReport(
        [Tally("orders", "read", many), Tally("orders", "null_key", many, ("X" * 400,)), Tally("orders", "rows", many)],
        [WrittenPart("latest", "p", many)],
        figures,
        Watched(engine, (WasRead(many, 99_999.0, many, many * 99), WasRead(many, 9.0, many, many)), steps),
    )
    title = f"Left join of {'o' * 90}.jsonl and customers (12,345 files)"
    summary = Summary(ORDERS, report, {"latest": ["p"]}, {"start-up": 9.9, "run": 123_456.7}, matches=True, title=title)
    path = tmp_path / "r.html"
    path.write_text(page_of(summary, datetime(2026, 1, 2, tzinfo=UTC)))
    require_legible(browser, path)


def test_the_page_of_a_run_over_nothing_is_drawn_and_records_are_text(tmp_path, browser):
    path = tmp_path / "r.html"
    report = Report([Tally("orders", "bad_record", 1, ("<b>bold</b>",))], [])
    path.write_text(page_of(Summary(ORDERS, report, {}, {}, matches=True, title="Nothing"), datetime(2026, 1, 2, tzinfo=UTC)))
    shown, complaints = opened(browser, path)
    assert complaints == []
    assert shown.locator("code").all_inner_texts() == ["<b>bold</b>"]
    shown.close()


@pytest.mark.parametrize(
    ("command", "options", "title", "steps"),
    [
        (
            join,
            ["--left", "a.jsonl", "--right", "b.jsonl", "--foreign-key", "of", "--how", "right"],
            "Right join of a.jsonl and b.jsonl",
            {"Left rows", "Right rows", "Join"},
        ),
        (join, ["--left", "a.jsonl", "--right", "b.jsonl", "--how", "anti"], "Anti join of a.jsonl and b.jsonl", {"Join"}),
        (table, ["--input", "a.jsonl"], "Table of a.jsonl", {"Rows", "Write changes"}),
    ],
)
def test_the_other_commands_have_reports_of_what_they_do(command, options, title, steps, own_directory, capsys):
    for name in ("a", "b"):
        write(f"{name}.jsonl", *({"id": n, "of": n % 3, "op": "c", "lsn": n, "updated_at": n * 10**6} for n in range(1, 9)))
    assert command.main([*options, "--output", "o.jsonl", "--report", "r.html"]) == 0, capsys.readouterr().err
    page = Path("r.html").read_text()
    assert f"<title>{title}</title>" in page
    assert [step for step in steps if f'class="name">{step}</text>' not in page] == []
    assert ('id="busiest"' in page) == ("--foreign-key" in options)


def test_buckets_grow_wider_and_keep_their_sum_whatever_the_order():
    rng = np.random.default_rng(7)
    times = rng.integers(-(10**9), 10**13, 50_000)
    whole, parts = count_times(times), add_times(count_times(part) for part in np.array_split(rng.permutation(times), 7))
    assert len(whole.counts) <= MOST_BUCKETS
    assert parts == TimeCounts(whole.width, dict(parts.counts))
    assert (whole.width, sorted(whole.counts.items())) == (parts.width, sorted(parts.counts.items()))
    assert sum(parts.counts.values()) == len(times)


@pytest.mark.sweep
@pytest.mark.spark
def test_on_spark_the_figures_are_the_same(run: Run, small: SampleFiles, reports: list[Summary]):
    for options in ([], ["--runner=SparkRunner"]):
        assert run(*inputs(small), "--latest", "l.jsonl", "--report", "r.html", *options).code == 0
    here, spark = reports
    assert references_in(here.figures) == references_in(spark.figures)
    assert times_in(here.figures, "result") == times_in(spark.figures, "result")
    assert here.watched is not None
    assert spark.watched is not None
    assert [each.rows for each in here.watched.read] == [each.rows for each in spark.watched.read] != [0, 0]
