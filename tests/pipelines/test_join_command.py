"""beam-joins join: results of small inputs, worked out by hand."""

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.join_run import BY, FILES, LEFT, NUMBERS, PRICES, RIGHT, TEA, changes, refused
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import Run, read_avro, read_lines, write

FIRST, SECOND, THIRD = ((n, n, "insert", [n, by, None]) for n, by in ((1, "a"), (2, "z"), (3, None)))
REFERRING: dict[str, Any] = {
    "inner": [(4, 1, "insert", [1, "a", "Ann"]), (6, 1, "update", [1, "b", "Bob"])],
    "left": [FIRST, SECOND, THIRD, (4, 1, "update", [1, "a", "Ann"]), (6, 1, "update", [1, "b", "Bob"])],
    "right": [
        (4, ["a", 1], "insert", [1, "a", "Ann"]),
        (5, ["b", None], "insert", [None, None, "Bob"]),
        (6, ["a", 1], "delete", None),
        (6, ["a", None], "insert", [None, None, "Ann"]),
        (6, ["b", 1], "insert", [1, "b", "Bob"]),
        (6, ["b", None], "delete", None),
    ],
    "semi": [(4, 1, "insert", [1, "a"]), (6, 1, "update", [1, "b"])],
    "anti": [*((n, n, "insert", [n, by]) for n, by in ((1, "a"), (2, "z"), (3, None))), (4, 1, "delete", None)],
}
REFERRING["outer"] = [
    (1, ["a", 1], "insert", [1, "a", None]),
    (2, ["z", 2], "insert", [2, "z", None]),
    (3, [None, 3], "insert", [3, None, None]),
    (4, ["a", 1], "update", [1, "a", "Ann"]),
    *REFERRING["right"][1:],
]
OF_ONE_KEY: dict[str, Any] = {
    "inner": [(4, "b", "insert", [2, 7])],
    "left": [(1, "a", "insert", [1, None]), (2, "b", "insert", [2, None]), (4, "b", "update", [2, 7]), (6, "a", "delete", None)],
    "right": [(4, "b", "insert", [2, 7]), (5, "d", "insert", [None, 9])],
    "semi": [(4, "b", "insert", [2])],
    "anti": [(1, "a", "insert", [1]), (2, "b", "insert", [2]), (4, "b", "delete", None), (6, "a", "delete", None)],
}
OF_ONE_KEY["outer"] = [*OF_ONE_KEY["left"][:3], OF_ONE_KEY["right"][1], OF_ONE_KEY["left"][3]]


@pytest.mark.parametrize("how", REFERRING)
def test_a_foreign_key_join_gives_the_changes_worked_out_by_hand(beam_joins: Run, how: str) -> None:
    select = "left.id, left.by" if how in ("semi", "anti") else "left.id, left.by, right.name as who"
    ran = beam_joins("join", *BY, "--how", how, "--select", select, "--output", "e.jsonl", "--latest", "now.jsonl")
    assert ran.code == 0, ran.err
    assert changes("e.jsonl") == REFERRING[how]
    rows = {json.dumps(key): new for _, key, _, new in REFERRING[how]}
    assert sorted(map(json.dumps, (list(row.values()) for row in read_lines(Path("now.jsonl"))))) == sorted(
        map(json.dumps, filter(None, rows.values()))
    )


@pytest.mark.parametrize("how", OF_ONE_KEY)
def test_a_join_of_rows_of_one_key_gives_the_changes_worked_out_by_hand(beam_joins: Run, how: str) -> None:
    write("l.jsonl", *NUMBERS)
    write("r.jsonl", *PRICES)
    select = "left.n" if how in ("semi", "anti") else "left.n,right.p"
    ran = beam_joins("join", *FILES, "--how", how, "--select", select, "--output", "e.jsonl")
    assert ran.code == 0, ran.err
    assert changes("e.jsonl") == OF_ONE_KEY[how]


def before(section: str, summary: str) -> str:
    """A summary up to a section, without the line on its changes."""
    return "\n".join(line for line in summary[: summary.index(section)].splitlines() if not line.startswith("  changes"))


@pytest.mark.parametrize("by", ["reference", "key"])
@pytest.mark.parametrize("how", REFERRING)
@pytest.mark.each_value
def test_the_final_rows_alone_are_those_that_the_changes_lead_to_and_so_is_all_that_is_counted(
    beam_joins: Run, how: str, by: str
) -> None:
    if by == "key":
        write("l.jsonl", *NUMBERS)
        write("r.jsonl", *PRICES)
    asked = ["join", *(BY if by == "reference" else FILES), "--how", how, "--latest", "now.jsonl"]
    ran = beam_joins(*asked, "--output", "e.jsonl")
    rows = sorted(Path("now.jsonl").read_text().splitlines())
    alone = beam_joins(*asked)
    assert ran.code == alone.code == 0, alone.err
    assert sorted(Path("now.jsonl").read_text().splitlines()) == rows
    assert before("engine", alone.out) == before("engine", ran.out)


@pytest.mark.spark
@pytest.mark.sweep
@pytest.mark.parametrize("how", ["inner", "outer"])
def test_on_spark_the_changes_are_the_same(beam_joins: Run, how: str) -> None:
    select = "left.id, left.by, right.name as who"
    ran = beam_joins("join", *BY, "--how", how, "--select", select, "--output", "e.jsonl", "--runner=SparkRunner")
    assert ran.code == 0, ran.err
    assert changes("e.jsonl") == REFERRING[how]


def test_by_default_all_columns_come_out_with_the_side_before_names_that_both_have(beam_joins: Run) -> None:
    assert beam_joins("join", *BY, "--how", "left", "--latest", "now.jsonl").code == 0
    rows = {row["left_id"]: row for row in read_lines(Path("now.jsonl"))}
    left = {"left_id": 1, "by": "b", "n": 5, "left_updated_at": 1}
    assert rows[1] == {**left, "right_id": "b", "name": "Bob", "right_updated_at": 5}
    assert rows[2] == {**left, "left_id": 2, "by": "z", "right_id": None, "name": None, "right_updated_at": None}


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("left.*, right as who", {"id": 1, "by": "b", "n": 5, "updated_at": 1, "who": {"id": "b", "name": "Bob", "updated_at": 5}}),
        ("left as row, right.name", {"row": {"id": 1, "by": "b", "n": 5, "updated_at": 1}, "name": "Bob"}),
        ('left.*, right.id as "the key"', {"id": 1, "by": "b", "n": 5, "updated_at": 1, "the key": "b"}),
        ("left.id, right.*", {"id": 1, "right_id": "b", "name": "Bob", "updated_at": 5}),
        ("right.name", {"name": "Bob"}),
    ],
)
def test_select_takes_columns_all_columns_and_whole_rows(beam_joins: Run, select: str, expected: Row) -> None:
    assert beam_joins("join", *BY, "--select", select, "--latest", "now.jsonl").code == 0
    assert read_lines(Path("now.jsonl")) == [expected]


def test_a_semi_join_gives_left_rows_as_objects_too(beam_joins: Run) -> None:
    assert beam_joins("join", *BY, "--how", "semi", "--select", "left as row", "--latest", "now.jsonl").code == 0
    assert read_lines(Path("now.jsonl")) == [{"row": {"id": 1, "by": "b", "n": 5, "updated_at": 1}}]


def test_numbers_that_are_selected_keep_their_digits_and_columns_their_text(beam_joins: Run) -> None:
    Path("l.jsonl").write_text('{"id":1,"by":"a","n":1.500000000000000000001,"x":{"lsn": [1, 2]},"op":"c","lsn":1,"updated_at":1}\n')
    assert beam_joins("join", *BY, "--select", "left.n,left.x,right.name", "--latest", "now.jsonl").code == 0
    assert Path("now.jsonl").read_text() == '{"n":1.500000000000000000001,"x":{"lsn": [1, 2]},"name":"Ann"}\n'


@pytest.mark.parametrize("format_", ["csv", "parquet", "avro"])
def test_inputs_of_any_format_give_the_same(beam_joins: Run, format_: str) -> None:
    if format_ == "csv":
        Path("r.csv").write_text("id,name,op,lsn,updated_at\n" + "".join(",".join(map(str, row.values())) + "\n" for row in RIGHT))
    elif format_ == "parquet":
        pq.write_table(pa.Table.from_pylist(RIGHT), "r.parquet")
    else:
        types = {"id": "string", "name": "string", "op": "string", "lsn": "long", "updated_at": "long"}
        with Path("r.avro").open("wb") as file:
            fields = [{"name": name, "type": type_} for name, type_ in types.items()]
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, RIGHT)
    select = "left.id, left.by, right.name as who"
    inputs = ["--left", "l.jsonl", "--right", f"r.{format_}", "--foreign-key", "by"]
    ran = beam_joins("join", *inputs, "--how", "outer", "--select", select, "--output", "e.jsonl")
    assert ran.code == 0, ran.err
    assert changes("e.jsonl") == REFERRING["outer"]


def test_avro_inputs_give_avro_results_with_nulls_where_a_side_is_missing(beam_joins: Run) -> None:
    types = {"id": "long", "by": ["null", "string"], "op": "string", "lsn": "long", "updated_at": "long"}
    for name, rows, case_inputs in (("l", LEFT, types), ("r", RIGHT, {**types, "id": "string", "name": "string"})):
        fields = [{"name": column, "type": type_} for column, type_ in case_inputs.items() if column in rows[0]]
        with Path(f"{name}.avro").open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, rows)
    inputs = ["--left", "l.avro", "--right", "r.avro", "--foreign-key", "by", "--select", "left.id,right.name"]
    ran = beam_joins("join", *inputs, "--how", "outer", "--output", "e.avro", "--latest", "now.avro")
    assert ran.code == 0, ran.err
    assert sorted(map(str, read_avro(Path("now.avro")))) == sorted(
        map(str, ({"id": 1, "name": "Bob"}, {"id": 2, "name": None}, {"id": 3, "name": None}, {"id": None, "name": "Ann"}))
    )
    assert {tuple(row["key"].values()) for row in read_avro(Path("e.avro"))} == {
        ("a", 1), ("z", 2), (None, 3), ("b", None), ("a", None), ("b", 1),
    }  # fmt: skip


def test_runs_that_go_on_give_the_changes_of_one_run(beam_joins: Run) -> None:
    for side, rows in (("l", LEFT), ("r", RIGHT)):
        Path("in", side).mkdir(parents=True)
        write(f"in/{side}/1.jsonl", *[row for row in rows if row["lsn"] < 5])
    case_inputs = [
        "--left",
        "in/l",
        "--right",
        "in/r",
        "--foreign-key",
        "by",
        "--select",
        "left.id,left.by,right.name as who",
        "--how",
        "outer",
    ]
    runs = ["join", *case_inputs, "--state-dir", "state", "--changes", "out", "--json", "run.json"]
    assert beam_joins(*runs).code == 0
    for side, rows in (("l", LEFT), ("r", RIGHT)):
        write(f"in/{side}/2.jsonl", *[row for row in rows if row["lsn"] >= 5])
    assert beam_joins(*runs).code == 0
    assert changes("out/changes-000001.jsonl") + changes("out/changes-000002.jsonl") == REFERRING["outer"]
    assert json.loads(Path("run.json").read_text())["inputs"]["left"]["read_records"] == 1
    assert refused(beam_joins(*runs, "--select", "left.id")).startswith("--select is left.id, but left.id,left.by")


def test_a_column_that_no_record_looked_at_has_makes_a_bad_record_where_all_columns_come_out(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.sampling.LOOK_RECORDS", 4)
    write("l.jsonl", *LEFT, {**TEA, "id": 9, "new": 1, "lsn": 9})
    assert refused(beam_joins("join", *BY, "--latest", "now.jsonl")).startswith(
        "left rows: l.jsonl, line 5: column 'new' is none of those of the first records: name the columns that you want in --select"
    )
    assert beam_joins("join", *BY, "--select", "left.id,right.name", "--latest", "now.jsonl").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--select", "id"], "--select: 'id' is none of left.COLUMN, left.COLUMN as NAME, left.*, left as NAME, right.COLUMN"),
        (["--select", "left.id, right.id"], "the result would have two columns 'id': give it another name in --select"),
        (["--select", "left.nr"], "left rows have no column 'nr' (--select): l.jsonl has id, by, n, op, lsn, updated_at"),
        (["--select", "left.* as x"], "--select: all columns have no name together: leave 'as x' out"),
        (["--select", "left as x, left.id"], "--select has the left row as an object and columns of it: choose one"),
        (["--select", "left.*, right as by"], "left rows have a column 'by' already: give it another name in --select"),
        (
            ["--how", "semi", "--select", "right.name"],
            "--how semi gives left rows alone: leave the columns of the right side out of --select",
        ),
        (["--foreign-key", "nr"], "left rows have no column 'nr' (--foreign-key)"),
        (["--left-key", "by", "--right-key", "lsn", "--foreign-key="], "holds text and the right rows' column 'lsn' whole numbers"),
        (["--right-sequence-by="], "--left-sequence-by and --right-sequence-by must both name a column or both be empty"),
        (["--latest="], "no result is named: give --output, --latest or --to"),
        (["--json", "now.jsonl"], "--latest and --json are both now.jsonl: give them different names"),
        (["--json", "none/s.json"], "--json: none/s.json is no file in a directory that is there: name another one"),
        (["--state-dir", "s", "--latest="], "no result is named: with --state-dir give --changes, --latest or --to"),
    ],
)
def test_a_wrong_option_is_one_sentence(beam_joins: Run, options: list[str], message: str) -> None:
    assert message in refused(beam_joins("join", *BY, "--latest", "now.jsonl", *options))
    assert sorted(path.name for path in Path().iterdir()) == ["l.jsonl", "r.jsonl"]


def test_an_input_that_is_not_given_is_asked_for(beam_joins: Run) -> None:
    assert refused(beam_joins("join", "--left", "l.jsonl", "--latest", "x.jsonl")) == "give --left and --right: a file or a glob"
    assert refused(beam_joins("table", "--latest", "x.jsonl")) == "give --input: a file or a glob"
