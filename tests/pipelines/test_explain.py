"""``python -m pipelines.explain``: what it shows is what the transforms give, and what it cannot use is said
in one sentence.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from beam_joins.options.join_types import How
from beam_joins.pipelines import join
from beam_joins.pipelines.commands.explain.command import main
from beam_joins.pipelines.commands.explain.drawing import draw
from beam_joins.pipelines.commands.explain.events import DROPPED, RESULT, Event, ExplainedSide, events_of
from beam_joins.pipelines.formats.changelog_columns import Columns

ORDERS = [
    {"id": 1, "by": "ann", "position": 1, "op": "upsert"},
    {"id": 2, "by": None, "position": 2, "op": "upsert"},
    {"id": 1, "by": "bob", "position": 4, "op": "upsert"},
    {"id": 1, "by": None, "position": 6, "op": "delete"},
]
PEOPLE = [
    {"key": "ann", "name": "Ann", "position": 3, "op": "upsert"},
    {"key": "cid", "name": "Cid", "position": 5, "op": "upsert"},
]


def explained(how: How, foreign_key: Sequence[str] = ("by",)) -> list[str]:
    sides = (
        ExplainedSide(records, Columns(key=(key,), timestamp="position", sequence="position", delete="op"))
        for records, key in ((ORDERS, "id"), (PEOPLE, "key"))
    )
    events = events_of(*sides, how=how, foreign_key=foreign_key)
    return [f"{event.position} {event.change}" for event in events if event.table == RESULT]


@pytest.mark.parametrize(
    ("how", "result"),
    [
        ("inner", ["3 1: - → ann | Ann", "4 1: ann | Ann → -"]),
        (
            "left",
            [
                *("1 1: - → ann | -", "2 2: - → - | -", "3 1: ann | - → ann | Ann", "4 1: ann | Ann → bob | -"),
                "6 1: bob | - → -",
            ],
        ),
        ("right", ["3 ann/1: - → ann | Ann", "4 ann/-: - → - | Ann", "4 ann/1: ann | Ann → -", "5 cid/-: - → - | Cid"]),
        ("semi", ["3 1: - → ann", "4 1: ann → -"]),
    ],
)
def test_every_kind_of_foreign_key_join_is_shown_with_its_changes(how: How, result: list[str]):
    assert explained(how) == result


def test_a_record_that_the_join_drops_is_shown_with_its_reason(tmp_path, capsys):
    ran(tmp_path, "--foreign-key", "by", "--right-key", "key")
    assert "dropped at 2: 2: - (null_foreign_key)" in capsys.readouterr().out


def ran(folder: Path, *options: str, left: list[dict[str, Any]] = ORDERS) -> int:
    for name, records in (("left", left), ("right", PEOPLE)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return main([str(folder / "left.jsonl"), str(folder / "right.jsonl"), *options])


@pytest.mark.parametrize(
    ("options", "left", "says"),
    [
        (["--right-key", "key", "--foreign-key", "customer"], ORDERS, "left rows have no column 'customer' (--foreign-key): "),
        ([], ORDERS, "right rows have no column 'id' (--right-key)"),
        (["--right-key", "key", "--sequence-by", "lsn"], ORDERS, "left rows have no column 'lsn' (--left-sequence-by)"),
        ([], [{"nr": 1, "lsn": 1}], "no columns 'id' (--left-key) and 'updated_at' (--left-timestamp-by): "),
        (["--right-key", "key"], [{"id": 1, "position": 1}], "'key' text: no left row would find a right one"),
        (["--right-key", "key"], [{"id": "a", "position": "x"}], "left.jsonl: column 'position' is not a whole number: 'x'"),
        (["--right-key", "key"], [{"id": "a", "position": 1, "op": "zap"}], "'op' is 'zap': add zap to --left-apply-as-upserts"),
        (["--right-key", "key"], [{"op": "c", "source": {}, "after": {}}], "--output-records upserts makes rows of them"),
        (["--right-key", "key"], [{"id": 1, "position": n} for n in range(501)], "more than 500 records"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(options: list[str], left: list[dict[str, Any]], says: str, tmp_path, capsys):
    assert ran(tmp_path, *options, left=left) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main([*arguments]) == 0, capsys.readouterr().err
    return [" ".join(line.replace("│", " ").split()) for line in capsys.readouterr().out.splitlines() if line[:1] == "│"]


def test_plain_csv_files_are_shown_with_the_options_of_join(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    orders, customers = tmp_path / "orders.csv", tmp_path / "customers.csv"
    orders.write_text(
        "Order No,Customer,Last Modified\n1,A1,2026-01-01 10:00:00\n2,A2,2026-01-02\n1,A2,2026-01-03 10:00:00\n", encoding="utf-8"
    )
    customers.write_text("Customer;Name\nA1;Ann\nA1;Anna\n", encoding="utf-8")
    options = ["--left-key", "Order No", "--right-key", "Customer", "--foreign-key", "Customer", "--how", "left"]
    assert main([str(orders), str(customers), *options]) == 2
    assert "name one of them with --left-timestamp-by, or give --left-timestamp-by= if there is none" in capsys.readouterr().err
    by_time = shown(capsys, str(orders), str(customers), *options, "--left-timestamp-by", "Last Modified")
    assert by_time == [
        "start A1: - → Anna",
        "2026-01-01 10:00:00 1: - → A1 1: - → A1 | Anna",
        "2026-01-02 00:00:00 2: - → A2 2: - → A2 | -",
        "2026-01-03 10:00:00 1: A1 → A2 1: A1 | Anna → A2 | -",
    ]
    without = shown(capsys, str(orders), str(customers), *options, "--timestamp-by=", "--sequence-by=")
    assert len(without) == 2
    assert without[0].startswith("start 1: - → A2, 2026-01-03 10:00:00 A1: - → Anna 1: - → A2, ")


def test_what_join_and_explain_make_of_changelogs_is_the_same(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    left, right, out = tmp_path / "left.jsonl", tmp_path / "right.csv", tmp_path / "out.jsonl"
    rows = [
        *({"id": 1, "lsn": 3, "op": "c", "at": 5, "a": "x", "b": 7}, {"id": 1, "lsn": 9, "op": "u", "at": 9, "a": "y", "b": 8}),
        *({"id": 2, "lsn": 4, "op": "c", "at": 6, "a": "x", "b": 7}, {"id": 2, "lsn": 8, "op": "D", "at": 8, "a": None, "b": None}),
        {"id": 1, "lsn": 5, "op": "-U", "at": 7, "a": "old", "b": 0},
    ]
    left.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    right.write_text("a,b,n,lsn,op,at\nx,7,N,6,c,6\n,,,7,t,7\ny,8,M,7,c,7\n", encoding="utf-8")
    options = [*("--right-key", "a,b", "--foreign-key", "a,b", "--left-timestamp-by", "at", "--right-timestamp-by", "at")]
    options += ["--left-ignored", "op=-U", "--right-apply-as-truncates", "op=t"]
    lines = shown(capsys, str(left), str(right), *options)
    assert join.main(["--left", str(left), "--right", str(right), *options, "--select", "right.n", "--output", str(out)]) == 0
    changes = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [(change["position"], change["key"], change["op"]) for change in changes] == [
        (6, 1, "insert"), (6, 2, "insert"), (7, 1, "delete"), (7, 2, "delete"), (9, 1, "insert")
    ]  # fmt: skip
    assert lines == [
        "3 1: - → x, 7",
        "4 2: - → x, 7",
        "6 x, 7: - → N 1: - → x, 7 | N",
        "2: - → x, 7 | N",
        "7 x, 7: N → - 1: x, 7 | N → -",
        "y, 8: - → M 2: x, 7 | N → -",
        "8 2: x, 7 → -",
        "9 1: x, 7 → y, 8 1: - → y, 8 | M",
    ]


def test_a_picture_that_cannot_be_written_is_an_error_of_the_output(tmp_path, capsys):
    assert ran(tmp_path, "--foreign-key", "by", "--right-key", "key", "--svg", str(tmp_path / "nowhere" / "a.svg")) == 1
    assert "nowhere" in capsys.readouterr().err


def test_a_drawing_is_well_formed_asks_for_nothing_and_has_every_version_as_a_bar():
    events = [Event("left", "<k>", None, "a & b", 1), Event("left", "<k>", "a & b", "c" * 80, 2), Event("result", "k", None, "x", 2)]
    svg = draw([*events, Event(DROPPED, "null_key", None, "nobody", 9)], "a <title>", {1: "1", 2: "2", 9: "9"})
    root = ElementTree.fromstring(svg)
    bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("rx")]
    assert len(bars) == 3
    assert "nobody" not in svg
    assert "url(" not in svg
    width = float(root.attrib["width"])
    assert all(float(bar.attrib["x"]) + float(bar.attrib["width"]) <= width for bar in bars)


def written(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows_of(change: dict[str, Any]) -> tuple[Any, Any]:
    return change["old"], change["new"]


@pytest.mark.parametrize("how", ["left", "semi"])
def test_the_options_of_a_join_in_a_file_show_the_rows_that_the_join_writes(own_directory: Path, capsys, how: str) -> None:
    for name, rows in {"orders": ORDERS, "people": PEOPLE}.items():
        Path(name).mkdir()
        written(Path(name, "1.jsonl"), rows)
    select = "left.id as nr, left.by" + (", right.name" if how == "left" else "")
    options = {
        **{"left": "orders", "right": "people", "right-key": "key", "foreign-key": "by", "how": how, "select": select},
        **{
            f"{side}-{name}": value
            for side in ("left", "right")
            for name, value in {"sequence-by": "position", "timestamp-by": ""}.items()
        },
        **{"state-dir": "state", "changes": "changes", "json": "run.json"},
    }
    Path("join.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items()))
    assert join.main(["--options", "join.toml"]) == 0
    changes = [json.loads(line) for line in Path("changes/changes-000001.jsonl").read_text().splitlines()]
    capsys.readouterr()
    assert main(["--options", "join.toml"]) == 0
    shown = capsys.readouterr().out
    for change in changes:
        old, new = (
            None if row is None else ", ".join("-" if each is None else str(each) for each in row.values())
            for row in (change["old"], change["new"])
        )
        assert f" {change['key']}: {old or '-'} → {new or '-'} " in shown
    assert main(["--options", "join.toml", "--select", "left.by"]) == 0
    assert "1: ann → bob" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name the changelog of the left rows, or a file with --left in --options"),
        (["kafka://b/t", "r.jsonl"], "left rows: kafka://b/t is no file: "),
        (["--options", "o.toml"], "--options: o.toml has --left-format, which explain does not read: "),
        (["--options", "none.toml"], "--options: cannot read none.toml: "),
    ],
)
def test_what_explain_does_not_read_is_said_before_anything_is_read(
    own_directory: Path, capsys, arguments: list[str], sentence: str
) -> None:
    Path("o.toml").write_text('left = "l.jsonl"\nleft-format = "debezium"\n')
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    assert sentence in capsys.readouterr().err
