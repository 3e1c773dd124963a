"""Debezium's connectors: the last change by the log wins whatever the order of the lines, and the places of
two logs are never compared.
"""

import itertools
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import InputError, LatestTable, TableToChanges
from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines import table
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.envelopes.enveloped import changes_of
from beam_joins.pipelines.formats.envelopes.log_places import Source, place_of
from tests.docs.page import DOCS
from tests.pipelines.orders_run import run_of

ONE, OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "7f22fa47-71ca-11e1-9e33-c80aa9429562"
MYSQL = {"connector": "mysql", "server_id": 7, "file": "mysql-bin.000003", "row": 0, "snapshot": "false"}
TICDC = {"connector": "TiCDC", "snapshot": "false", "server_id": 0, "gtid": None, "file": "", "pos": 0, "row": 0, "cluster_id": "one"}
LSN = "00000027:00000ac0:{:04x}"

PLACES: dict[str, list[dict[str, Any]]] = {
    "postgresql": [
        {"connector": "postgresql", "lsn": 90, "sequence": None, "snapshot": "first"},
        {"connector": "postgresql", "lsn": 100, "sequence": '["95","100"]'},
        {"connector": "postgresql", "lsn": 110, "sequence": '["95","110"]'},
        {"connector": "postgresql", "lsn": 105, "sequence": '["120","105"]'},
    ],
    "mysql with GTIDs": [
        {**MYSQL, "snapshot": "last", "server_id": 0, "pos": 900, "gtid": None},
        {**MYSQL, "pos": 154, "gtid": f"{ONE}:9"},
        {**MYSQL, "pos": 254, "gtid": f"{ONE}:9"},
        {**MYSQL, "pos": 254, "row": 1, "gtid": f"{ONE}:9"},
        {**MYSQL, "file": "mysql-bin.000001", "pos": 4, "gtid": f"{ONE}:10"},
    ],
    "mysql without GTIDs": [
        {**MYSQL, "snapshot": True, "server_id": 0, "pos": 4},
        {**MYSQL, "pos": 154},
        {**MYSQL, "pos": 154, "row": 1},
        {**MYSQL, "file": "mysql-bin.000010", "pos": 4},
    ],
    "mariadb": [
        {**MYSQL, "connector": "mariadb", "pos": 9, "gtid": "0-1-99"},
        {**MYSQL, "connector": "mariadb", "pos": 1, "gtid": "0-1-100"},
        {**MYSQL, "connector": "mariadb", "file": "other.000001", "pos": 1, "gtid": "0-2-101"},
    ],
    "sqlserver": [
        {"connector": "sqlserver", "commit_lsn": LSN.format(1), "change_lsn": None, "snapshot": "true"},
        {"connector": "sqlserver", "commit_lsn": LSN.format(9), "change_lsn": "00000026:00000ac0:0007", "event_serial_no": 1},
        {"connector": "sqlserver", "commit_lsn": LSN.format(9), "change_lsn": LSN.format(3), "event_serial_no": 1},
        {"connector": "sqlserver", "commit_lsn": LSN.format(9), "change_lsn": LSN.format(3), "event_serial_no": 2},
        {"connector": "sqlserver", "commit_lsn": "00000027:00000ac1:0001", "change_lsn": LSN.format(2), "event_serial_no": 1},
        {
            "connector": "sqlserver",
            "commit_lsn": "00000100:00000001:0001",
            "change_lsn": "00000100:00000001:0001",
            "event_serial_no": 1,
        },
    ],
    "oracle": [
        {"connector": "oracle", "scn": "1000", "commit_scn": None, "snapshot": "true"},
        {"connector": "oracle", "scn": "1001", "commit_scn": "1009", "ssn": 0},
        {"connector": "oracle", "scn": "1001", "commit_scn": "1009", "ssn": 1},
        {"connector": "oracle", "scn": "1005", "commit_scn": "1009", "ssn": 0},
        {"connector": "oracle", "scn": "1002", "commit_scn": "1010", "ssn": 0},
    ],
    "mongodb": [
        {"connector": "mongodb", "collection": "t", "ts_ms": 1_000, "ord": 2},
        {"connector": "mongodb", "collection": "t", "ts_ms": 2_000, "ord": 1},
        {"connector": "mongodb", "collection": "t", "ts_ms": 2_000, "ord": 2},
    ],
    "TiCDC": [
        {**TICDC, "commit_ts": 447507027004751877},
        {**TICDC, "commit_ts": 447507027004751878},
        {**TICDC, "commit_ts": 447507027266895873},
    ],
}
"""Of each connector the sources of the changes of one row, in the order of the log."""

SECOND_LOG = {
    "another server's GTIDs": [{**MYSQL, "pos": 1, "gtid": f"{ONE}:1000"}, {**MYSQL, "pos": 1, "gtid": f"{OTHER}:1"}],
    "GTIDs switched off": [{**MYSQL, "pos": 154, "gtid": f"{ONE}:5"}, {**MYSQL, "file": "mysql-bin.000004", "pos": 2}],
    "GTIDs switched on": [{**MYSQL, "pos": 154}, {**MYSQL, "file": "mysql-bin.000004", "pos": 2, "gtid": f"{ONE}:5"}],
    "another base name": [{**MYSQL, "pos": 154}, {**MYSQL, "file": "binlog.000001", "pos": 4}],
    "another server": [{**MYSQL, "pos": 154}, {**MYSQL, "server_id": 8, "file": "mysql-bin.000001", "pos": 4}],
    "another cluster": [{**TICDC, "commit_ts": 9}, {**TICDC, "commit_ts": 7, "cluster_id": "other"}],
    "another domain": [{**MYSQL, "pos": 1, "gtid": "0-1-100"}, {**MYSQL, "pos": 4, "gtid": "1-1-7"}],
}


def event(number: int, source: dict[str, Any]) -> dict[str, Any]:
    row: Any = {"id": 1, "v": number}
    if source["connector"] == "mongodb":
        row = json.dumps(row)
    else:
        source = {"table": "t", **source}
    return {"op": "u", "before": None, "after": row, "source": {"ts_ms": number + 1, "db": "inv", **source}, "ts_ms": 9}


def write(path: Path, events: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    return str(path)


def test_the_page_names_the_connectors_that_are_tested_here() -> None:
    section = (DOCS / "envelopes.md").read_text().partition("## Connectors of Debezium")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].partition(",")[0].strip().replace("`", "") for line in section.splitlines() if line.startswith("| `")]
    assert rows == list(PLACES)


@pytest.mark.parametrize("connector", PLACES)
def test_places_have_the_order_of_the_log(connector: str) -> None:
    sources = PLACES[connector]
    places = [place_of(Source(**{"ts_ms": 1, **source})) for source in sources]
    keys = [(place.position, place.order or 0) for place in places]
    assert keys == sorted(set(keys))
    assert all(-(2**63) <= number < 2**63 for key in keys for number in key)
    assert len({place.log for place in places if place.log}) <= 1


def test_events_of_these_connectors_alone_name_their_log() -> None:
    named = {name for name, sources in PLACES.items() if any(place_of(Source(**{"ts_ms": 1, **each})).log for each in sources)}
    assert named == {"mysql with GTIDs", "mysql without GTIDs", "mariadb", "TiCDC"}
    page = (DOCS / "envelopes.md").read_text()
    assert "Events of `postgresql`, `sqlserver`, `oracle` and `mongodb` do not name their server" in page


@pytest.mark.parametrize("connector", PLACES)
def test_the_last_change_by_the_log_wins_whatever_the_order_of_the_lines(connector: str, tmp_path: Path) -> None:
    events = [event(number, source) for number, source in enumerate(PLACES[connector])]
    path = write(tmp_path / "events.jsonl", events[::-1])
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        final = pipeline | ReadChangeEvents(path, format="debezium", table="t", key="id") | LatestTable()
        assert_that(final | beam.Map(lambda row: (row[0], row[1]["v"])), equal_to([(1, len(events) - 1)]))


@pytest.mark.parametrize(("name", "turned"), itertools.product(SECOND_LOG, [False, True]))
def test_changes_of_two_logs_are_refused_and_both_are_named(name: str, turned: bool, tmp_path: Path) -> None:
    events = [event(number, source) for number, source in enumerate(SECOND_LOG[name])]
    path = write(tmp_path / "events.jsonl", events[::-1] if turned else events)
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | ReadChangeEvents(path, format="debezium", table="t", key="id")
    with pytest.raises(InputError, match=r"the changes are of several logs \(.+; .+\), whose positions cannot be compared"):
        pipeline.run().wait_until_finish()


def test_a_run_that_goes_on_remembers_the_log(tmp_path: Path) -> None:
    for number, source in enumerate(SECOND_LOG["another server's GTIDs"]):
        path = write(tmp_path / f"{number}.jsonl", [event(number, source)])
        pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([f"--beam_joins_state={tmp_path}/state"]))
        _ = pipeline | ReadChangeEvents(path, format="debezium", table="t", key="id") | TableToChanges()
        if number:
            with pytest.raises(InputError, match="several logs"):
                pipeline.run().wait_until_finish()
        else:
            pipeline.run().wait_until_finish()


def _of_mysql(*places: tuple[str, int, int], **more: Any) -> list[dict[str, Any]]:
    return [
        {"connector": "mysql", "file": file, "pos": pos, "server_id": 7, "ts_ms": 1_700_000_000_000 + 1_000 * second, **more}
        for file, pos, second in places
    ]


_BEFORE = _of_mysql(("bin.000003", 154, 10), ("bin.000003", 900, 12))
AGAIN: dict[str, tuple[list[list[dict[str, Any]]], bool]] = {
    "goes on in the next file": ([_BEFORE, _of_mysql(("bin.000004", 154, 13))], False),
    "is sent again": ([_BEFORE, [*_BEFORE, *_of_mysql(("bin.000003", 1_000, 13))]], False),
    "is read in another order": ([_BEFORE, _of_mysql(("bin.000002", 700, 9))], False),
    "has a long transaction": (
        [_BEFORE, _of_mysql(("bin.000003", 800, 13), ("bin.000003", 1_000, 9), ("bin.000004", 154, 14))],
        False,
    ),
    "begins at its first file": ([_BEFORE, _of_mysql(("bin.000001", 154, 13))], True),
    "begins at the same place": ([_BEFORE, _of_mysql(("bin.000003", 154, 13), ("bin.000003", 1_200, 14))], True),
    "begins in the same file": ([_BEFORE, _of_mysql(("bin.000003", 300, 13))], True),
    "grows beyond the end": ([_BEFORE, _of_mysql(("bin.000003", 300, 100), ("bin.000003", 2_000, 101))], True),
    "begins again within a run": ([[*_BEFORE, *_of_mysql(("bin.000001", 154, 3_600))]], True),
    "counts its GTIDs again": (
        [
            _of_mysql(("bin.000003", 154, 10), gtid="3e11fa47-71ca-11e1-9e33-c80aa9429562:23"),
            _of_mysql(("bin.000001", 154, 11), gtid="3e11fa47-71ca-11e1-9e33-c80aa9429562:1"),
        ],
        True,
    ),
}


@pytest.mark.parametrize("name", AGAIN)
def test_a_log_that_has_begun_again_is_told_from_one_that_goes_on(name: str, tmp_path: Path) -> None:
    runs, is_refused = AGAIN[name]
    for number, sources in enumerate(runs):
        path = write(tmp_path / f"{number}.jsonl", [event(n, source) for n, source in enumerate(sources)])
        pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([f"--beam_joins_state={tmp_path}/state"]))
        _ = pipeline | ReadChangeEvents(path, format="debezium", table="t", key="id") | TableToChanges()
        if is_refused and number + 1 == len(runs):
            with pytest.raises(InputError, match=r"^the log .* has begun again, as after RESET MASTER .* new snapshot$"):
                pipeline.run().wait_until_finish()
        else:
            pipeline.run().wait_until_finish()


def test_the_command_says_it_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "e.jsonl", [event(number, source) for number, source in enumerate(SECOND_LOG["GTIDs switched off"])])
    ran = run_of(table.main, capsys)("--format", "debezium", "--key", "id", "--input", "e.jsonl", "--latest", "now.jsonl")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "the changes are of several logs (mysql-bin of server 7; the GTIDs of server 3e11fa47" in ran.err
    assert not Path("now.jsonl").exists()


def test_changes_of_the_schema_are_passed_over_and_counted() -> None:
    reader = DebeziumJson()
    line = {
        "source": {"connector": "mysql", "file": "b.1", "pos": 7},
        "ts_ms": 5,
        "databaseName": "inv",
        "ddl": "ALTER TABLE t ADD x INT",
        "tableChanges": [],
    }
    assert changes_of(reader, json.dumps(line).encode()) == []
    assert dict(reader.skipped) == {"schema_change": 1}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"gtid": "nonsense", "file": "b.1", "pos": 1}, "the GTID 'nonsense' is neither of MySQL"),
        ({"commit_lsn": "zz"}, "'zz' is no log sequence number of SQL Server"),
        ({"commit_lsn": "ffffffff:00000001:0001"}, "does not fit in 64 bits"),
        ({"scn": "12:3"}, "'12:3' is no system change number of Oracle"),
        ({"snapshot": "incremental"}, "a row of a snapshot (incremental) without a place in the log"),
        ({}, "an event whose source has none of lsn, pos, commit_lsn, scn, ord and commit_ts"),
        ({"connector": "db2", "commit_lsn": "00000000:00000000:00043b6b"}, "an event of the connector db2, whose places in the log"),
        ({"connector": "informix", "commit_lsn": "281478091903128"}, "an event of the connector informix, whose places"),
        ({"connector": "cassandra", "file": "CommitLog-6-1.log", "pos": 9}, "an event of the connector cassandra, whose places"),
        ({"connector": "yugabytedb", "lsn": "1:4::0:0"}, "an event of the connector yugabytedb, whose places"),
        ({"connector": "vitess", "vgtid": "[]"}, "an event of the connector vitess, whose places"),
        ({"file": "", "pos": 0}, "an event whose source has a pos but no file of a binary log"),
    ],
)
def test_a_source_that_gives_no_place_is_a_bad_record(source: dict[str, Any], says: str) -> None:
    actual = changes_of(DebeziumJson(), json.dumps(event(1, {"connector": "mysql", **source})).encode())
    assert isinstance(actual, str)
    assert says in actual


def test_a_delete_of_mongodb_without_its_document_names_the_setting() -> None:
    deleted = {
        "op": "d",
        "before": None,
        "after": None,
        "source": {"connector": "mongodb", "db": "inv", "collection": "t", "ts_ms": 1, "ord": 1},
    }
    actual = changes_of(DebeziumJson(), json.dumps(deleted).encode())
    assert isinstance(actual, str)
    assert "capture.mode=change_streams_update_full_with_pre_image" in actual
