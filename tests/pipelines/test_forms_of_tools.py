"""Rows without envelopes, as other tools write them, are read with the options that the page names."""

import shlex
from pathlib import Path

import pytest

from tests.docs.page import DOCS
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import Run, read_lines, write


def delta(version: int, change: str, n: int, v: str) -> Row:
    return {"id": n, "v": v, "_change_type": change, "_commit_version": version, "_commit_timestamp": f"2026-03-0{version}T08:00:00Z"}


def airbyte(lsn: int, n: int, v: str | None, deleted: str | None = None) -> Row:
    return {"id": n, "v": v, "_ab_cdc_lsn": lsn, "_ab_cdc_updated_at": "2026-03-01T08:00:00Z", "_ab_cdc_deleted_at": deleted}


def sql_server(position: int, operation: int, n: int, v: str) -> Row:
    return {"id": n, "v": v, "__$operation": operation, "position": position, "at": "2026-03-01T08:00:00.007"}


ROWS: dict[str, list[Row]] = {
    "Delta's change feed": [
        *[delta(1, "insert", 1, "a"), delta(1, "insert", 2, "b"), delta(1, "insert", 3, "c")],
        *[delta(2, "update_preimage", 1, "a"), delta(2, "update_postimage", 1, "z"), delta(3, "delete", 2, "b")],
    ],
    "Airbyte, of CDC sources": [
        *[airbyte(10, 1, "a"), airbyte(10, 2, "b"), airbyte(12, 3, "c")],
        *[airbyte(14, 1, "z"), airbyte(15, 2, None, "2026-03-02T09:30:00Z")],
    ],
    "SQL Server's cdc.fn_cdc_get_all_changes_*, N'all update old'": [
        *[sql_server(1, 2, 1, "a"), sql_server(2, 2, 2, "b"), sql_server(3, 2, 3, "c")],
        *[sql_server(4, 3, 1, "a"), sql_server(4, 4, 1, "z"), sql_server(5, 1, 2, "b")],
    ],
}
"""By what the page calls it, a history that leaves the rows 1 and 3."""


def options_of_the_page() -> dict[str, list[str]]:
    table = (DOCS / "envelopes.md").read_text().partition("| rows of |")[2].partition("\n\n")[0]
    rows = [line.split("|") for line in table.splitlines()[2:]]
    return {name.strip().replace("`", ""): shlex.split(options.strip(" `")) for _, name, options, _ in rows}


def test_the_page_names_the_tools_that_are_tested_here() -> None:
    assert list(options_of_the_page()) == list(ROWS)


@pytest.mark.parametrize("tool", ROWS)
def test_the_rows_in_the_end_are_those_of_the_source_in_any_order_of_the_lines(beam_joins: Run, tool: str) -> None:
    write("rows.jsonl", *ROWS[tool][::-1])
    options = ["--key", "id", "--select", "id,v", "--latest", "now.jsonl", *options_of_the_page()[tool]]
    ran = beam_joins("table", "--input", "rows.jsonl", *options)
    assert ran.code == 0, ran.err
    assert sorted(map(str, read_lines(Path("now.jsonl")))) == ["{'id': 1, 'v': 'z'}", "{'id': 3, 'v': 'c'}"]


def snowflake(version: int, action: str, n: int, v: str) -> Row:
    return {"id": n, "v": v, "METADATA$ACTION": action, "METADATA$ISUPDATE": action == "DELETE", "version": version, "at": version}


def duck_lake(version: int, change: str, n: int, v: str) -> Row:
    return {"id": n, "v": v, "change_type": change, "version": version, "at": version}


BY_TIME = "--timestamp-by _commit_timestamp --apply-as-deletes _change_type=delete"
OF_VERSIONS = "--sequence-by version --timestamp-by at"
FEEDS: dict[str, tuple[str, list[Row]]] = {
    "Delta, without the old rows": (
        f"--sequence-by _commit_version {BY_TIME}",
        [delta(1, "insert", 1, "a"), delta(2, "insert", 1, "z"), delta(2, "delete", 1, "a")],
    ),
    "Delta, by time alone": (
        f"--sequence-by= {BY_TIME} --ignored _change_type=update_preimage",
        [
            delta(1, "insert", 1, "a"),
            delta(2, "update_postimage", 1, "z"),
            delta(2, "update_preimage", 1, "a"),
            delta(2, "delete", 1, "a"),
        ],
    ),
    "Delta, under another name": (
        f"{OF_VERSIONS} --apply-as-deletes op=delete --ignored op=update_preimage",
        [
            {"id": 1, "v": v, "op": op, "version": n, "at": n}
            for n, op, v in [(1, "insert", "a"), (2, "insert", "z"), (2, "delete", "a")]
        ],
    ),
    "Iceberg's changelog view": (
        f"{OF_VERSIONS} --apply-as-deletes op=DELETE --apply-as-upserts op=INSERT,UPDATE_AFTER --ignored op=UPDATE_BEFORE",
        [
            {"id": 1, "v": v, "op": op, "version": n, "at": n}
            for n, op, v in [(1, "INSERT", "a"), (2, "UPDATE_AFTER", "z"), (2, "DELETE", "a")]
        ],
    ),
    "Snowflake": (
        f"{OF_VERSIONS} --apply-as-deletes METADATA$ACTION=DELETE",
        [snowflake(1, "INSERT", 1, "a"), snowflake(2, "INSERT", 1, "z"), snowflake(2, "DELETE", 1, "a")],
    ),
    "DuckLake": (
        f"{OF_VERSIONS} --apply-as-deletes change_type=delete --ignored change_type=update_preimage",
        [duck_lake(1, "insert", 1, "a"), duck_lake(2, "update_postimage", 1, "z"), duck_lake(2, "update_preimage", 1, "a")],
    ),
    "SQL Server": (
        "--sequence-by position --timestamp-by at --apply-as-deletes __$operation=1 --apply-as-upserts __$operation=2,4",
        [sql_server(1, 2, 1, "a"), sql_server(5, 2, 1, "z"), sql_server(5, 1, 1, "a")],
    ),
}
"""Feeds that do not order the changes of a version, with their options: an update of row 1, its delete last in the file."""


@pytest.mark.parametrize("feed", FEEDS)
def test_in_a_feed_without_an_order_within_a_version_a_delete_is_of_the_row_before(beam_joins: Run, feed: str) -> None:
    options, rows = FEEDS[feed]
    for number, lines in enumerate((rows, rows[::-1])):
        write(f"rows-{number}.jsonl", *lines)
        ran = beam_joins(
            "table",
            "--input",
            f"rows-{number}.jsonl",
            "--key",
            "id",
            "--select",
            "id,v",
            "--latest",
            "now.jsonl",
            *shlex.split(options.replace("$", r"\$")),
        )
        assert ran.code == 0, ran.err
        assert read_lines(Path("now.jsonl")) == [{"id": 1, "v": "z"}]


ESTUARY = {"op": "c", "source": {"ts_ms": 1_772_352_000_000, "schema": "public", "table": "t", "loc": [0, 24, 30]}, "uuid": "8a1f"}
NOT_READ: dict[str, tuple[Row, str]] = {
    "Estuary": (
        {"id": 1, "v": "a", "_meta": ESTUARY},
        "rows.jsonl has id, v, _meta; what Estuary says of a change lies within _meta, where no option reads it",
    ),
    "Canal-JSON": (
        {"id": 0, "table": "t", "isDdl": False, "type": "INSERT", "es": 1, "data": [{"id": "1", "v": "a"}]},
        "rows.jsonl has id, table, isDdl, type, es, data; lines with isDdl are Canal-JSON, which is not read",
    ),
}


@pytest.mark.parametrize("tool", NOT_READ)
def test_what_is_not_read_is_refused_by_name(beam_joins: Run, tool: str) -> None:
    row, sentence = NOT_READ[tool]
    write("rows.jsonl", row)
    ran = beam_joins("table", "--input", "rows.jsonl", "--key", "id", "--latest", "now.jsonl")
    assert ran.code == 2
    assert sentence in ran.err
