"""python -m pipelines.page_views from end to end: its answers against a naive one, and what it says when something is wrong."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beam_joins.pipelines.changelog_files.tally import Tally
from beam_joins.pipelines.made_up.views import FIRST_WEEK, GONE, NEW, page_views, views_on_first_use
from beam_joins.pipelines.page_views import main
from beam_joins.pipelines.page_views_report import totals, weeks_table
from tests.pipelines.orders_run import Ran, Run, run_of


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return run_of(main, capsys)


def one_sentence(ran: Ran) -> str:
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    program, _, said = ran.err.rstrip("\n").partition(": ")
    assert program == "python -m pipelines.page_views"
    return said


def write(path: str, rows: Iterable[Mapping[str, Any]]) -> str:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return sorted(rows, key=lambda row: (row["week"], row["page"]))


def naive(views: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Counted by calendar date, with nothing of Beam."""
    counts: Counter[tuple[Any, Any]] = Counter()
    for view in views:
        day = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=view["at"])).date()
        if view["page"] is not None:
            counts[day - timedelta(days=day.weekday()), view["page"]] += 1
    rows = []
    for (week, page), count in sorted(counts.items()):
        before = counts.get((week - timedelta(days=7), page))
        change = None if before is None else round((count - before) / before * 100, 1)
        rows.append({"page": page, "week": str(week), "views": count, "last_week": before, "change": change})
    return rows


def test_every_week_stands_beside_the_one_before(run: Run) -> None:
    views = list(page_views(views=3_000, seed=7))
    ran = run("--views", write("v.jsonl", views), "--output", "weeks.jsonl")
    assert ran.code == 0, ran.err
    assert read("weeks.jsonl") == naive(views)
    assert ran.out.startswith(weeks_table(read("weeks.jsonl")))
    assert "views read                                    3,000" in ran.out


def test_the_order_of_the_lines_does_not_matter_nor_in_which_files_they_are(run: Run) -> None:
    views = list(page_views(views=1_000))
    random.Random(3).shuffle(views)
    write("v-1.jsonl", views[:400])
    write("v-2.jsonl", views[400:])
    assert run("--views", "v-*.jsonl", "--output", "out/weeks.jsonl.gz").code == 0
    assert run("--views", write("all.jsonl", views[::-1]), "--output", "weeks.jsonl").code == 0
    subprocess.run(["gzip", "-d", "out/weeks.jsonl.gz"], check=True)
    assert read("out/weeks.jsonl") == read("weeks.jsonl") == naive(views)


@pytest.mark.spark
def test_spark_gives_the_same_weeks(run: Run) -> None:
    views = list(page_views(views=2_000))
    ran = run("--views", write("v.jsonl", views), "--output", "weeks.jsonl", "--runner=SparkRunner", "--spark_master_url=local[2]")
    assert ran.code == 0, ran.err
    assert read("weeks.jsonl") == naive(views)


def test_without_options_it_shows_the_sample_and_leaves_nothing_but_the_sample(run: Run) -> None:
    ran = run()
    assert ran.code == 0, ran.err
    assert ran.out.startswith(weeks_table(naive(page_views())))
    assert [str(path) for path in Path().rglob("*") if path.is_file()] == ["sample-data/views.jsonl"]


def test_the_sample_is_always_the_same_and_has_what_real_views_have() -> None:
    path = views_on_first_use(Path("here"))
    views = read_lines(path)
    assert views == list(page_views())
    assert views != list(page_views(seed=2))
    times = [view["at"] for view in views]
    assert times != sorted(times)
    assert min(times) == FIRST_WEEK
    assert any(view["page"] is None for view in views)
    pages = {
        week: {row["page"] for row in naive(views) if row["week"] == week} for week in sorted({row["week"] for row in naive(views)})
    }
    assert len(pages) == 5
    for number, there in enumerate(pages.values()):
        assert {page for page, first in NEW.items() if number >= first} <= there
        assert not there & {page for page, first in GONE.items() if number >= first}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_other_column_names_and_units(run: Run) -> None:
    rows = [{"url": "/", "ts": 7 * 86_400 * week + 5 * 86_400} for week in (0, 0, 1)]
    ran = run("--views", write("v.jsonl", rows), "--page", "url", "--time", "ts", "--time-unit", "s", "--output", "weeks.jsonl")
    assert ran.code == 0, ran.err
    assert [(row["week"], row["views"], row["last_week"], row["change"]) for row in read("weeks.jsonl")] == [
        ("1970-01-05", 2, None, None),
        ("1970-01-12", 1, 2, -50.0),
    ]


def test_a_view_without_a_page_is_dropped_and_counted(run: Run) -> None:
    ran = run("--views", write("v.jsonl", [{"page": None, "at": 1}, {"page": "/", "at": 1}]))
    assert ran.code == 0, ran.err
    assert "views dropped                                     1  without a key (null_key)" in ran.out


def test_no_views_are_no_weeks(run: Run) -> None:
    ran = run("--views", write("v.jsonl", []), "--output", "weeks.jsonl")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("no page views\n")
    assert Path("weeks.jsonl").read_text() == ""


def test_the_busiest_pages_of_the_last_weeks_are_shown_and_the_rest_is_counted() -> None:
    rows = [
        {"page": f"/{page}", "week": f"2026-01-{week:02}", "views": page, "last_week": None, "change": None}
        for week in (5, 12, 19, 26, 27)
        for page in range(1, 13)
    ]
    lines = weeks_table(rows).splitlines()
    assert lines[0] == "(earlier weeks: 1)"
    assert [line.split()[2] for line in lines if line.startswith("week of")] == [
        "2026-01-12",
        "2026-01-19",
        "2026-01-26",
        "2026-01-27",
    ]
    assert [line.split()[0] for line in lines[2:12]] == [f"/{page}" for page in range(12, 2, -1)]
    assert lines[12] == "  (more pages: 2)"


def test_examples_of_bad_records_are_named(run: Run) -> None:
    Path("v.jsonl").write_text('{"page": "/", "at": 1}\nnonsense\n{"page": "/", "at": "yesterday"}\n')
    assert "line 2: not JSON" in one_sentence(run("--views", "v.jsonl"))
    ran = run("--views", "v.jsonl", "--on-bad-record", "drop")
    assert ran.code == 0, ran.err
    assert "2  not usable as a record (bad_record)" in ran.out
    assert "line 3: column 'at' is not a time: 'yesterday'" in ran.out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--views", "missing.jsonl"], "views: there is no file missing.jsonl"),
        (["--views", "."], "views: . is a directory"),
        (["--views", "v.jsonl", "--page", "url"], "views have no column 'url' (--page): v.jsonl has page, at"),
        (["--views", "v.jsonl", "--time", "when"], "views have no column 'when' (--time): v.jsonl has page, at"),
        (["--views", "v.jsonl", "--time", ""], "--time must name a column"),
        (["--views", "v.jsonl", "--output", "v.jsonl"], "v.jsonl is an input: give the result another name"),
        (["--views", "v.jsonl", "--output", "w.avro"], "--output: w.avro would be Avro, but the weeks are written as JSON lines"),
        (["--views", "v.jsonl", "--output", "w.txt"], "--output"),
        (["--views", "v.jsonl", "--runner", "Sparkrunner2"], "Unexpected pipeline runner: Sparkrunner2"),
        (
            ["--views", "v.jsonl", "--time-unit", "ms"],
            "is not in the years 2 to 9998: is it in another unit than ms? (--time-unit)",
        ),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_exit_code_2(run: Run, argv: list[str], says: str) -> None:
    write("v.jsonl", [{"page": "/", "at": FIRST_WEEK}])
    ran = run(*argv)
    assert says in one_sentence(ran)
    assert ran.code == 2
    assert [str(path) for path in Path().rglob("*")] == ["v.jsonl"]


def test_an_unknown_option_is_named(run: Run) -> None:
    ran = run("--vews", "v.jsonl")
    assert ran.code == 2
    assert "unknown option: --vews v.jsonl" in ran.err


def test_totals_have_what_was_read_first_and_examples_below_their_reason() -> None:
    tallies = [Tally("views", "bad_record", 1, ("line 3: not JSON",)), Tally("views", "read", 5), Tally("", "", 0)]
    lines = totals(tallies, {"run": 1.0, "finishing": 0.5}, "").splitlines()
    assert [line.split("  ")[0] for line in lines] == ["views read", "views dropped", "", "seconds"]
    assert lines[2] == "  line 3: not JSON"


def test_it_runs_as_a_module() -> None:
    root = Path(__file__).parents[2]
    write("v.jsonl", [{"page": "/", "at": FIRST_WEEK}])
    command = [sys.executable, "-m", "beam_joins.pipelines.page_views", "--views", str(Path("v.jsonl").absolute())]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("week of 2026-01-05 (Monday, UTC)")
    assert ran.stderr == ""
