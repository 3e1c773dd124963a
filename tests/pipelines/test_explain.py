"""``python -m pipelines.explain``: what it shows is what the transforms give, and what it cannot use is said
in one sentence.
"""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from beam_joins.pipelines.commands.explain.command import main
from beam_joins.pipelines.commands.explain.drawing import draw
from beam_joins.pipelines.commands.explain.events import DROPPED, RESULT, Event, ExplainedSide, events_of

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


def explained(how: str, foreign_key: str | None = "by") -> list[str]:
    events = events_of(
        ExplainedSide(ORDERS, "id", "position", "op"), ExplainedSide(PEOPLE, "key", "position", "op"), how=how, foreign_key=foreign_key
    )
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
def test_every_kind_of_foreign_key_join_is_shown_with_its_changes(how: str, result: list[str]):
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
        (["--right-key", "key", "--foreign-key", "customer"], ORDERS, "has no column 'customer': it has id, by, position, op"),
        ([], ORDERS, "right rows have no column 'id' (--right-key)"),
        (["--right-key", "key", "--sequence-by", "lsn"], ORDERS, "left rows have no column 'lsn' (--sequence-by)"),
        ([], [{"nr": 1, "lsn": 1}], "no columns 'id' (--left-key) and 'position' (--sequence-by): "),
        (["--right-key", "key"], [{"id": 1, "position": 1}], "right.jsonl holds text: no row would find another"),
        (["--right-key", "key"], [{"id": 1, "position": "x"}], "--sequence-by: 'position' is not a whole number"),
        (["--right-key", "key"], [{"id": 1, "position": 1, "op": "zap"}], "'op' has zap: neither an upsert nor a delete"),
        (["--right-key", "key"], [{"id": 1, "position": n} for n in range(501)], "more than 500 records"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(options: list[str], left: list[dict[str, Any]], says: str, tmp_path, capsys):
    assert ran(tmp_path, *options, left=left) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_picture_that_cannot_be_written_is_an_error_of_the_output(tmp_path, capsys):
    assert ran(tmp_path, "--foreign-key", "by", "--right-key", "key", "--svg", str(tmp_path / "nowhere" / "a.svg")) == 1
    assert "nowhere" in capsys.readouterr().err


def test_a_drawing_is_well_formed_asks_for_nothing_and_has_every_version_as_a_bar():
    events = [Event("left", "<k>", None, "a & b", 1), Event("left", "<k>", "a & b", "c" * 80, 2), Event("result", "k", None, "x", 2)]
    svg = draw([*events, Event(DROPPED, "null_key", None, "nobody", 9)], "a <title>")
    root = ElementTree.fromstring(svg)
    bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("rx")]
    assert len(bars) == 3
    assert "nobody" not in svg
    assert "url(" not in svg
    width = float(root.attrib["width"])
    assert all(float(bar.attrib["x"]) + float(bar.attrib["width"]) <= width for bar in bars)
