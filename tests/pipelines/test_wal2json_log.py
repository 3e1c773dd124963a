"""The log of a slot in files that are cut anywhere, read in one run or in several, is the log that was not
cut.
"""

import gzip
import json
import random
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import example, given
from hypothesis import strategies as st

from beam_joins import LatestTable
from beam_joins.errors import InputError
from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.changelogs.changelog_files import find_files
from beam_joins.pipelines.formats.changelog_columns import Envelopes
from beam_joins.pipelines.formats.envelopes import wal2json_lines
from beam_joins.pipelines.formats.envelopes.row_change import RowChange
from beam_joins.pipelines.formats.envelopes.wal2json import Wal2Json
from beam_joins.pipelines.formats.envelopes.wal2json_lines import Wal2JsonLines
from beam_joins.pipelines.formats.envelopes.wal2json_log import NONE_READ, ReadBefore, Wal2JsonLog, wal2json_log
from beam_joins.pipelines.formats.file_parts import Part
from tests.examples import examples

ENVELOPES = Envelopes("wal2json", "", ("id",))


def place(lsn: int) -> str:
    return f"0/{lsn:X}"


def transactions(count: int, chance: random.Random) -> list[list[Any]]:
    """The lines of so many transactions in format 2, the changes of each among those of others in the
    database's log.
    """
    made, lsn = [], 16
    for n in range(count):
        stamp = {"timestamp": f"2026-01-01 00:00:00.{n:06}+00"}
        changes: list[Any] = []
        at = lsn - chance.randrange(16)
        for m in range(chance.choice([0, 1, 1, 2, 5])):
            at += chance.choice([0, 1, 3])  # 0: rows that are logged together
            row = [
                {"name": "id", "type": "integer", "value": m},
                {"name": "text", "type": "text", "value": '{"action":"B"}\n' * (m % 3)},
            ]
            table = {"schema": "public", "table": chance.choice(["t", "u"])}
            changes.append({"action": chance.choice("IU"), **stamp, "lsn": place(at), **table, "columns": row, "pk": row[:1]})
        lsn = max(lsn, at) + 16
        commit = {**stamp, "lsn": place(lsn), "nextlsn": place(lsn + 8)}
        made.append([{"action": "B", **commit}, *changes, {"action": "C", **commit}])
    return made


def lines_of(transaction: list[Any], version: int) -> list[bytes]:
    if version == 1:
        commit = transaction[-1]
        changes = [
            {
                "kind": "insert",
                **{name: change[name] for name in ("schema", "table")},
                "columnnames": [column["name"] for column in change["columns"]],
                "columnvalues": [column["value"] for column in change["columns"]],
            }
            for change in transaction[1:-1]
        ]
        transaction = [{"nextlsn": commit["nextlsn"], "timestamp": commit["timestamp"], "change": changes}]
    return [json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in transaction]


def files_of(log: list[list[bytes]], chance: random.Random, *, rotated: float = 0.15) -> list[bytes]:
    """What readers of the slot write, who are killed now and then, and whose files are rotated at any line."""
    files, begin = [b""], 0
    while True:
        kill = chance.random() < 0.5
        stop = chance.randrange(begin, len(log)) if kill else len(log)
        for line in [line for transaction in log[begin:stop] for line in transaction]:
            if chance.random() < rotated:
                files.append(b"")
            files[-1] += line
        if not kill:
            return files
        cut = b"".join(log[stop])
        cut = cut[: chance.randrange(len(cut))]
        lines = cut.splitlines(keepends=True)
        at = chance.randrange(len(lines) + 1)
        files[-1] += b"".join(lines[:at])
        if chance.random() < 0.5:
            files.append(b"")
        files[-1] += b"".join(lines[at:])
        if chance.random() < 0.5:
            files.append(b"")
        begin = chance.randrange(max(0, stop - 2), stop + 1)


def read(folder: Path, starts: dict[str, int], names: list[str], before: ReadBefore = NONE_READ) -> tuple[Counter[Any], Wal2JsonLog]:
    """The changes of files, and what waits."""
    actual = [file for file in find_files("rows", str(folder), ENVELOPES) if Path(file.path).name in names or file.path in starts]
    log = wal2json_log("rows", [replace(file, start=starts.get(file.path, 0), table="*") for file in actual], before)
    changes: Counter[Any] = Counter()
    for number, file in enumerate(log.files):
        for start, stop in Wal2JsonLines().cuts(file, 1):
            for marked in Wal2JsonLines().marked(Part(number, file, start, stop)):
                assert not marked.faults
                changes.update(marked.texts)
    return changes, log


def by_position(changes: Counter[Any]) -> dict[int, set[tuple[int, str]]]:
    grouped: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for text in changes:
        row = json.loads(text)
        grouped[row["(position)"]].add((row.pop("(order)"), json.dumps(row)))
    return grouped


@pytest.mark.parametrize("version", [1, 2])
@example(seed=4903, runs=1, held=0)  # sent again, and then over the end of a file
@example(seed=1922, runs=3, held=0)  # its end comes in a later run, beside one that is sent again and cut
@examples(150)
@given(seed=st.integers(0, 2**32), runs=st.integers(1, 3), held=st.sampled_from([0, 300, 1 << 20]))
def test_a_log_cut_anywhere_gives_each_transaction_whole_in_one_run_or_several(
    tmp_path_factory: pytest.TempPathFactory, version: int, seed: int, runs: int, held: int
) -> None:
    chance = random.Random(seed)
    log = [lines_of(transaction, version) for transaction in transactions(8, chance)]
    folder = tmp_path_factory.mktemp("log")
    (folder / "whole.jsonl").write_bytes(b"".join(line for lines in log for line in lines))
    expected = by_position(read(folder, {}, ["whole.jsonl"])[0])
    (folder / "whole.jsonl").unlink()
    suffixes = iter(lambda: chance.choice(["jsonl", "jsonl.gz"]), "")
    names = [
        f"{n}.{suffix}" for n, suffix in zip(chance.sample(range(1000), 1000), suffixes, strict=False)
    ]  # the order is that of the log, not of the names
    files = list(zip(names, files_of(log, chance), strict=False))
    cuts = sorted(chance.randrange(len(files) + 1) for _ in range(runs - 1))
    seen: Counter[Any] = Counter()
    starts: dict[str, int] = {}
    before = NONE_READ
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wal2json_lines, "_MOST_HELD", held)
        for begin, stop in zip([0, *cuts], [*cuts, len(files)], strict=True):
            for name, content in files[begin:stop]:
                (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
            changes, placed = read(folder, starts, [name for name, _ in files[begin:stop]], before)
            before = placed.read
            starts = {each.path: each.start for each in placed.waiting if not each.comes_again}
            seen += changes
            now = by_position(seen)
            assert now == {position: expected[position] for position in now}
    assert by_position(seen) == expected
    assert not starts


def folder_of(path: Path, **files: list[Any]) -> Path:
    for name, lines in files.items():
        (path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_file_that_cannot_be_placed_is_refused_with_the_remedy(tmp_path: Path) -> None:
    one, two, three = transactions(3, random.Random(0))
    assert len(two) > 3
    (tmp_path / "1").mkdir()
    with pytest.raises(
        InputError, match=r"b\.jsonl begins within the transaction with nextlsn 0/\w+, whose beginning is in no file: name the"
    ):
        read(folder_of(tmp_path / "1", b=[*two[2:], *three]), {}, ["b.jsonl"])
    (tmp_path / "2").mkdir()
    with pytest.raises(
        InputError, match=r"a\.jsonl ends within the transaction with nextlsn 0/\w+, whose end is in no file, and .*c\.jsonl has"
    ):
        read(folder_of(tmp_path / "2", a=[*one, *two[:2]], c=three), {}, ["a.jsonl", "c.jsonl"])
    (tmp_path / "3").mkdir()
    with pytest.raises(InputError, match="read slots with include-transaction"):
        read(folder_of(tmp_path / "3", d=two[1:-1]), {}, ["d.jsonl"])
    (tmp_path / "4").mkdir()
    with pytest.raises(
        ValueError, match="goes on behind the transaction with nextlsn 0/.*, which is cut off: read the slot again from"
    ):
        read(folder_of(tmp_path / "4", e=[*two[:2], *three]), {}, ["e.jsonl"])


def test_what_waits_is_told_with_file_and_transaction(tmp_path: Path) -> None:
    one, two, _ = transactions(3, random.Random(0))
    changes, log = read(folder_of(tmp_path, a=[*one, *two[:-1]]), {}, ["a.jsonl"])
    assert set(by_position(changes)) <= {int(one[0]["nextlsn"][2:], 16)}
    (waiting,) = log.waiting
    assert f"a.jsonl ends within the transaction with nextlsn {two[0]['nextlsn']}, which is not applied" in waiting.sentence


@examples(100)
@given(seed=st.integers(0, 2**32), held=st.sampled_from([0, 1 << 20]))
def test_a_line_that_cannot_be_read_takes_no_other_one_with_it(tmp_path_factory: pytest.TempPathFactory, seed: int, held: int) -> None:
    chance = random.Random(seed)
    lines = [line for transaction in transactions(6, chance) for line in lines_of(transaction, 2)]
    bad = chance.randrange(1, len(lines) - 1)
    folder = tmp_path_factory.mktemp("log")
    (folder / "whole.jsonl").write_bytes(b"".join(lines))
    (file,) = find_files("rows", str(folder), ENVELOPES)
    expected = [change.row for change in Wal2JsonLines().changes(file)]
    if b'"columns"' in lines[bad]:
        del expected[sum(b'"columns"' in line for line in lines[:bad])]
    lines[bad] = chance.choice([b"no JSON\n", lines[bad][:-9] + b"\n", b'{"action":7}\n'])
    (folder / "whole.jsonl").write_bytes(b"".join(lines))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wal2json_lines, "_MOST_HELD", held)
        (file,) = find_files("rows", str(folder), ENVELOPES)
        actual = list(Wal2JsonLines().marked(Part(0, replace(file, table="*"), 0, 0)))
    assert sum(len(marked.faults) for marked in actual) == 1
    rows = [json.loads(text) for marked in actual for text in marked.texts if text != b"null"]
    assert [{name: row[name] for name in ("id", "text")} for row in rows] == list(map(json.loads, expected))


def logged_together(action: str, ids: list[int], lsn: str = "0/20") -> list[Any]:
    """The lines of rows that PostgreSQL logs in one record, as those of a COPY."""
    return [
        {
            "action": action,
            "timestamp": "2026-01-01 00:00:00+00",
            "lsn": lsn,
            "schema": "public",
            "table": "t",
            "columns" if action == "I" else "identity": [{"name": "id", "value": n}, {"name": "text", "value": str(n)}],
            "pk": [{"name": "id"}],
        }
        for n in ids
    ]


BOUNDS = [{"action": action, "timestamp": "2026-01-01 00:00:00+00", "lsn": "0/40", "nextlsn": "0/48"} for action in "BC"]


@pytest.mark.parametrize(
    ("key", "ids", "same"),
    [
        (("id",), [1, 2, 3], [0, 0, 0]),
        ((), [1, 2, 3], [0, 0, 0]),
        (("text",), [1, 2, 1], [0, 0, 1]),
        (("none",), [1, 2, 3], [0, 1, 2]),
    ],
)
def test_rows_that_are_logged_together_have_one_order_unless_they_have_one_key(
    key: tuple[str, ...], ids: list[int], same: list[int]
) -> None:
    envelope = Wal2Json(key)
    lines = [BOUNDS[0], *logged_together("I", ids), *logged_together("I", [4], "0/28")]
    orders = [
        change.order for line in lines for change in envelope.changes(json.dumps(line).encode()) if isinstance(change, RowChange)
    ]
    first = orders[0]
    assert first is not None
    assert orders == [*(first + n for n in same), first + (8 << 8)]


def test_rows_that_come_and_go_in_a_transaction_that_is_sent_again_and_cut_elsewhere_are_gone(tmp_path: Path) -> None:
    begin, commit = BOUNDS
    rows = logged_together("I", list(range(9)))
    folder_of(tmp_path, a=[begin, *rows], b=[begin, *rows[:4]], c=rows[4:], d=[*logged_together("D", [*range(7)], "0/28"), commit])
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        rows_left = pipeline | ReadChangeEvents(f"{tmp_path}/*.jsonl", format="wal2json", table="t", schema=None) | LatestTable()
        assert_that(rows_left, equal_to([(n, {"id": n, "text": str(n)}) for n in (7, 8)]))
