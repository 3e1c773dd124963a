"""The front page of the site is short, and both of its ways in give the same table."""

import json
import shlex
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import LatestTable
from beam_joins.pipelines.commands import programs
from tests.docs.page import DOCS, PAGES, blocks, links, pictures

PAGE = DOCS / "index.md"
ROWS = {
    "orders": [{"id": 1, "customer": 7, "amount": 5}, {"id": 2, "customer": 8, "amount": 6}, {"id": 1, "customer": 8, "amount": 5}],
    "customers": [{"id": 7, "name": "Ann"}, {"id": 8, "name": "Bob"}],
}


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for table, rows in ROWS.items():
        lines = [{"op": "c", "after": row, "source": {"table": table, "lsn": at, "ts_ms": at}} for at, row in enumerate(rows, start=1)]
        Path(f"{table}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def block(language: str) -> str:
    (text,) = [block.text for block in blocks(PAGE) if block.language == language]
    return text


@pytest.mark.usefixtures("events")
def test_the_python_of_the_front_page_gives_the_joined_rows() -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        scope = {"pipeline": pipeline}
        exec(compile(block("py"), PAGE.name, "exec"), scope)
        rows = scope["enriched"] | LatestTable() | beam.MapTuple(lambda key, row: (key, row["amount"], row["name"]))
        assert_that(rows, equal_to([(1, 5, "Bob"), (2, 6, "Bob")]))


@pytest.mark.usefixtures("events")
def test_the_command_of_the_front_page_gives_the_joined_rows() -> None:
    program, *arguments = shlex.split(block("sh").replace("\\\n", ""))
    assert (program, programs.main(arguments)) == ("beam-joins", 0)
    rows = [json.loads(line) for line in Path("now.jsonl").read_text().splitlines()]
    assert sorted((row["left_id"], row["amount"], row["name"]) for row in rows) == [(1, 5, "Bob"), (2, 6, "Bob")]


def test_the_front_page_has_one_picture_three_ways_in_and_few_links() -> None:
    assert pictures(PAGE) == ["front.svg"]
    assert [block.language for block in blocks(PAGE)] == ["py", "sh", "yaml"]
    assert len(list(links(PAGE))) <= 6


def test_every_picture_of_the_site_has_colors_for_the_dark() -> None:
    style = (DOCS / "site.css").read_text(encoding="utf-8")
    for picture in {picture for page in PAGES for picture in pictures(page)}:
        drawn_for_it = "prefers-color-scheme: dark" in (DOCS / picture).read_text(encoding="utf-8", errors="replace")
        recolored = f'img[src*="{Path(picture).parent}/"]' in style or f'img[src$="{picture}"]' in style
        assert drawn_for_it or recolored, picture
