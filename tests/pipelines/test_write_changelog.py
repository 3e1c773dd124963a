"""WriteChangelog: upserts and pairs, in files that are read again."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from pyarrow import csv, feather

from beam_joins import Change, FilterTable, LatestTable, StateFolder, TableFromChangelog, TableToChanges, runner, vectorized
from beam_joins.errors import InputError, OutputError
from beam_joins.io import ReadChangeEvents, ReadChangelog, ReadParquet, WriteChangelog, WriteParquet
from beam_joins.pipelines import table as table_command
from beam_joins.pipelines.base.input_error import input_error_in
from beam_joins.pipelines.formats.output_records import MARKS
from beam_joins.transforms.engine.resumed.commits import Commits
from beam_joins.transforms.engine.resumed.state_files import StateFiles
from tests.pipelines.orders_run import Run
from tests.pipelines.tables import SMALL, WIDE, WIDE_ROWS, anew, changes_anew, run, small, table_of, wide
from tests.pipelines.test_formats_of_results import read_msgpack

pytestmark = pytest.mark.usefixtures("own_directory")
FIRST = [small(1, 1, "a"), small(2, 2, "b"), small(2, 4, None), small(3, 3, 'ä\n"')]
SECOND = [small(1, 5, None), small(4, 7, "d"), small(2, 6, "bb")]
FORMATS = ("jsonl", "avro", "parquet", "arrow", "csv", "msgpack")
MANY = [(n % 40, None if n % 7 == 3 else f"n{n}", n, n) for n in range(300)]


def written(path: str, **options: Any) -> Any:
    return lambda table: table | f"write {path}" >> WriteChangelog(path, key="id", **options)


def changes_of(table: Any, name: str) -> None:
    _ = table | f"changes {name}" >> TableToChanges() | f"text {name}" >> beam.Map(repr) | f"file {name}" >> beam.io.WriteToText(name)


def lines_of(name: str) -> list[str]:
    return sorted(line for path in Path().glob(f"{name}-*") for line in path.read_text().splitlines())


def avro_rows(path: str) -> list[Any]:
    with Path(path).open("rb") as file:
        return list(fastavro.reader(file))


@pytest.mark.parametrize("format", ["jsonl", "avro", "parquet", "arrow"])
def test_pairs_are_read_as_debeziums_and_give_the_same_table_with_the_same_types(format: Any) -> None:
    schema = WIDE.insert(1, pa.field("clock", pa.time64("us")))
    rows = [{"clock": None if row["tiny"] is None else 86_399_000_001, **row} for row in WIDE_ROWS]
    with beam.Pipeline() as pipeline:
        table = table_of(pipeline, rows, schema)
        written(f"pairs.{format}", records="pairs", table="t")(table)
        changes_of(table, "given")
        inputs = table | LatestTable()
        _ = inputs | WriteParquet("latest")
    with beam.Pipeline() as pipeline:
        table = pipeline | ReadChangeEvents(f"pairs.{format}", format="debezium", table="t", key="id")
        changes_of(table, "found")
        _ = table | LatestTable() | WriteParquet("again")
    assert len(lines_of("given")) == 7
    assert lines_of("found") == lines_of("given")
    first, second = (pq.read_schema(next(Path().glob(f"{name}-*"))).field("value").type for name in ("latest", "again"))
    assert [field.name for field in second] == [field.name for field in first]
    assert [field.type for field in second if field.name != "words"] == [field.type for field in first if field.name != "words"]


def test_upserts_have_the_columns_of_key_and_value_and_what_the_change_is() -> None:
    run(FIRST, SMALL, written("log.jsonl"))
    assert [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()] == [
        {"id": key, "name": name, "timestamp": f"1970-01-01T00:00:00.{at:06d}Z", "position": at, "deleted": name is None}
        for key, name, at in ((1, "a", 1), (2, "b", 2), (3, 'ä\n"', 3), (2, None, 4))
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_upserts_make_the_same_table_again(format: Any, run: Run) -> None:
    with beam.Pipeline() as pipeline:
        table = table_of(pipeline, FIRST + SECOND, SMALL)
        written(f"log.{format}")(table)
        changes_of(table, "given")
    with beam.Pipeline() as pipeline:
        if format == "parquet":
            log = pipeline | ReadParquet("log.parquet")
        elif format == "arrow":
            log = pipeline | beam.Create([feather.read_table("log.arrow")]).with_output_types(pa.Table)
        elif format == "avro":
            log = pipeline | beam.Create(avro_rows("log.avro"))
        elif format == "msgpack":
            log = pipeline | beam.Create(read_msgpack(Path("log.msgpack")))
        elif format == "csv":
            columns = {"id": pa.int64(), "name": pa.string()} | {field.name: field.type for field in MARKS}
            options = csv.ConvertOptions(column_types=columns, strings_can_be_null=True, quoted_strings_can_be_null=False)
            lines = csv.ParseOptions(newlines_in_values=True)
            log = pipeline | beam.Create([csv.read_csv("log.csv", None, lines, options)]).with_output_types(pa.Table)
        else:
            log = pipeline | beam.Create([json.loads(line) for line in Path("log.jsonl").read_text().splitlines()])
        times = {} if format == "jsonl" else {"timestamp_by": "timestamp"}
        table = log | TableFromChangelog(
            key="id",
            sequence_by="position",
            apply_as_deletes="deleted",
            except_columns=["timestamp", "position", "deleted"],
            **times,
        )
        changes_of(table, "found")
    cut = (lambda line: line.partition(", timestamp=")[0]) if format == "jsonl" else str
    assert sorted(map(cut, lines_of("found"))) == sorted(map(cut, lines_of("given")))


PER_SECOND = {"s": 1, "ms": 1_000, "us": 10**6, "ns": 10**9}


def clocks(unit: Any) -> pa.Table:
    """Columns of times of a unit."""
    small = unit in ("s", "ms")
    values = [None, 5 * PER_SECOND[unit], 11_045_678_901 * PER_SECOND[unit] // 10**6]
    times, clock = pa.array(values, pa.int64()), pa.array(values, pa.int32() if small else pa.int64())
    columns = {"at": times.cast(pa.timestamp(unit)), "clock": clock.cast(pa.time32(unit) if small else pa.time64(unit))}
    # Debezium has no type of nanoseconds with a zone
    return pa.table({"id": [1, 2, 3], **columns, **({} if unit == "ns" else {"zoned": times.cast(pa.timestamp(unit, "UTC"))})})


PAIRS = [f"pairs.{suffix}" for suffix in ("jsonl", "avro", "parquet", "arrow")]
UPSERTS = [f"upserts.{suffix}" for suffix in FORMATS]


@pytest.mark.parametrize(
    ("unit", "paths"),
    [
        ("ms", ["pairs.parquet"]),
        ("s", ["upserts.csv"]),
        *(pytest.param(unit, [*PAIRS, *UPSERTS], marks=pytest.mark.sweep) for unit in ("s", "ms", "us")),
        pytest.param(
            "ns", ["pairs.parquet", "pairs.arrow", *(path for path in UPSERTS if "avro" not in path)], marks=pytest.mark.sweep
        ),
    ],
)
def test_times_are_read_again_from_pairs_and_upserts_with_a_schema_and_without(unit: str, paths: list[str]) -> None:
    values = clocks(unit)
    marks = [field.name for field in MARKS]
    options: dict[str, Any] = {"key": "id", "timestamp_by": marks[0], "sequence_by": marks[1], "apply_as_deletes": marks[2]}
    readers: dict[str, Any] = {"pairs": ReadChangeEvents, "upserts": ReadChangelog}
    of_kind = {"pairs": {"format": "debezium", "table": "t", "key": "id"}, "upserts": {**options, "except_columns": marks}}
    schemas = {"pairs": values.schema, "upserts": pa.schema([*values.schema, *MARKS])}
    with beam.Pipeline() as pipeline:
        log = pipeline | beam.Create([values.append_column("lsn", pa.array([1, 2, 3]))]).with_output_types(pa.Table)
        table = log | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["lsn"])
        for path in paths:
            kind, _, _ = path.partition(".")
            written(path, records=kind, **({"table": "t"} if kind == "pairs" else {}))(table)
        changes_of(table, "given")
    with beam.Pipeline() as pipeline:
        for path in paths:
            kind = path.partition(".")[0]
            changes_of(pipeline | f"typed {path}" >> readers[kind](path, schema=schemas[kind], **of_kind[kind]), f"typed-{path}")
            changes_of(pipeline | f"plain {path}" >> readers[kind](path, **of_kind[kind]), f"plain-{path}")
    assert len(lines_of("given")) == 3
    for path in paths:
        assert lines_of(f"typed-{path}") == lines_of("given"), path
        assert positions(f"plain-{path}") == positions("given"), path
        if path in PAIRS or path.endswith((".parquet", ".arrow")):
            assert lines_of(f"plain-{path}") == lines_of("given"), path


def positions(name: str) -> list[str]:
    """The times and positions of changes."""
    return [line.partition(", timestamp=")[2] for line in lines_of(name)]


@pytest.mark.parametrize("format", FORMATS)
def test_the_files_are_those_of_the_command(format: Any) -> None:
    rows = [{"id": key, "name": name, "n": n, "at": at, "gone": name is None} for key, name, n, at in MANY]
    Path("log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    columns = ["--key=id", "--timestamp-by=at", "--sequence-by=at", "--apply-as-deletes=gone", "--select=id,name,n"]
    assert table_command.main(["--input=log.jsonl", *columns, f"--output=c.{format}", f"--latest=l.{format}"]) == 0
    forms = ["upserts"] if format == "csv" else ["upserts", "pairs"]
    for as_ in forms:
        assert table_command.main(["--input=log.jsonl", *columns, f"--output=as-{as_}.{format}", f"--output-records={as_}"]) == 0
    schema = pa.schema({"id": pa.int64(), "name": pa.string(), "n": pa.int64(), "at": pa.int64(), "gone": pa.bool_()})
    options: Any = {"timestamp_by": "at", "sequence_by": "at", "apply_as_deletes": "gone", "except_columns": ["at", "gone"]}
    with beam.Pipeline() as pipeline:
        table = pipeline | ReadChangelog("log.jsonl", key="id", schema=schema, **options)
        for as_ in ("changes", "rows", *forms):
            written(f"{as_}.{format}", records=as_)(table)
    for mine, of_command in (("changes", "c"), ("rows", "l"), *((as_, f"as-{as_}") for as_ in forms)):
        assert content(Path(f"{mine}.{format}")) == content(Path(f"{of_command}.{format}"))


def content(path: Path) -> Any:
    """What is in a file, but for what its format says about itself."""
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".avro":
        return avro_rows(str(path))
    return feather.read_table(path) if path.suffix == ".arrow" else path.read_bytes()


def test_rows_of_runs_that_go_on_replace_those_of_the_run_before() -> None:
    for rows in (FIRST, SECOND):
        run(rows, SMALL, written("rows.csv", records="rows"), state=Path("state"))
    assert sorted(map(repr, csv.read_csv("rows.csv", parse_options=csv.ParseOptions(newlines_in_values=True)).to_pylist())) == [
        repr({"id": key, "name": name}) for key, name in ((2, "bb"), (3, 'ä\n"'), (4, "d"))
    ]


def test_the_orders_command_reads_upserts(run: Run) -> None:
    orders = pa.schema([("id", pa.int64()), ("customer_id", pa.int64()), *list(SMALL)[2:]])
    with beam.Pipeline() as pipeline:
        written("orders.avro")(table_of(pipeline, [{"id": 1, "customer_id": 7, "lsn": 1, "op": "u"}], orders))
    with beam.Pipeline() as pipeline:
        written("customers.parquet")(table_of(pipeline, [small(7, 2, "Ann")], SMALL))
    options = [
        f"--{side}-{name}" for side in ("orders", "customers") for name in ("key=id", "timestamp-by=timestamp", "sequence-by=position")
    ]
    options += [f"--{side}-apply-as-deletes=deleted" for side in ("orders", "customers")]
    ran = run(
        "--orders", "orders.avro", "--customers", "customers.parquet", "--foreign-key=customer_id", *options, "--latest", "l.jsonl"
    )
    assert ran.code == 0, ran.err
    assert json.loads(Path("l.jsonl").read_text())["customer"]["name"] == "Ann"


def test_files_of_runs_that_go_on_are_together_the_file_of_one_run(tmp_path: Path) -> None:
    for rows in (FIRST, SECOND):
        run(rows, SMALL, written("log.jsonl"), state=tmp_path / "state")
    run(FIRST + SECOND, SMALL, written("whole.jsonl"))
    parts = [Path(f"log-00000{number}.jsonl").read_bytes() for number in (1, 2)]
    assert all(parts)
    assert b"".join(parts) == Path("whole.jsonl").read_bytes()


def test_a_state_that_is_older_than_the_files_is_refused_until_the_later_files_are_removed(tmp_path: Path) -> None:
    state, backup, third = tmp_path / "state", tmp_path / "backup", [small(5, 8, "e")]
    Path("log-202401.jsonl").write_text("of a month\n")
    for number, rows in enumerate((FIRST, SECOND, third)):
        run(rows, SMALL, written("log.jsonl"), state=state)
        if number == 0:
            shutil.copytree(state, backup)
    files = [Path(f"log-00000{number}.jsonl") for number in (1, 2, 3)]
    whole = b"".join(file.read_bytes() for file in files)
    for kept in (files, files[:2], [files[0], files[2]]):
        shutil.rmtree(state)
        shutil.copytree(backup, state)
        for file in {*files} - {*kept}:
            file.unlink()
        with pytest.raises(InputError, match="is older than the files beside it, which go on to run") as caught:
            run(SECOND + third, SMALL, written("log.jsonl"), state=state)
        assert f"go on to run {kept[-1].stem[-1]}: give the state of that run, or remove the files from run 2 on" in str(caught.value)
        for file in {*files} - {*kept}:
            file.write_bytes(b"of a later run\n")
    for file in files[1:]:
        file.unlink()
    run(SECOND + third, SMALL, written("log.jsonl"), state=state)
    assert b"".join(file.read_bytes() for file in files[:2]) == whole


@pytest.mark.parametrize(
    ("of", "name"), [(StateFolder, "prepare"), (Commits, "begin"), (StateFolder, "finish"), (StateFiles, "put_over")]
)
def test_the_file_of_a_run_is_there_once_the_run_counts_wherever_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: Any, name: str
) -> None:
    run(FIRST, SMALL, written("log.jsonl"), state=tmp_path / "state")
    run(FIRST + SECOND, SMALL, written("whole.jsonl"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(of, name, lambda *_: _interrupt())
        run(SECOND, SMALL, written("log.jsonl"), state=tmp_path / "state")
    with StateFolder(str(tmp_path / "state")) as folder:  # which finishes a commit that was cut off
        assert sorted(path.name for path in Path().glob("log-*")) == [f"log-{number:06}.jsonl" for number in range(1, folder.run)]
    for rows in (SECOND, []):
        run(rows, SMALL, written("log.jsonl"), state=tmp_path / "state")
    files = sorted(Path().glob("log-*"))
    assert b"".join(file.read_bytes() for file in files) == Path("whole.jsonl").read_bytes()
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_the_file_of_a_first_run_is_replaced_by_another_first_run_unless_later_ones_are_there(tmp_path: Path) -> None:
    for name in ("state", "again"):
        run(FIRST, SMALL, written("log.jsonl"), state=tmp_path / name)
    run(SECOND, SMALL, written("log.jsonl"), state=tmp_path / "again")
    with pytest.raises(InputError, match="remove the files from run 1 on"):
        run(FIRST, SMALL, written("log.jsonl"), state=tmp_path / "third")


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_a_file_is_replaced_by_the_next_run_and_compressed_as_its_name_says() -> None:
    run(FIRST, SMALL, written("log.jsonl.gz"))
    run(SECOND[1:2], SMALL, written("log.jsonl.gz"))
    assert json.loads(gzip.decompress(Path("log.jsonl.gz").read_bytes()))["name"] == "d"
    assert [path.name for path in Path().iterdir() if "log" in path.name or path.name.startswith(".")] == ["log.jsonl.gz"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_without_changes_is_a_file_without_records(format: Any) -> None:
    run([], SMALL, written(f"log.{format}"))
    if format == "parquet":
        assert pq.read_table("log.parquet").num_rows == 0
    elif format == "arrow":
        assert feather.read_table("log.arrow").num_rows == 0
    elif format == "avro":
        assert not avro_rows("log.avro")
    else:
        header = {"jsonl": "", "msgpack": "", "csv": '"id","name","timestamp","position","deleted"\n'}
        assert Path(f"log.{format}").read_text() == header[format]


def test_a_run_that_fails_leaves_what_was_there() -> None:
    run(FIRST, SMALL, written("log.jsonl"))
    before = Path("log.jsonl").read_bytes()

    def failing(table: Any) -> None:
        paths = written("log.jsonl")(table)
        _ = paths | beam.Map(lambda path: path)
        _ = table | "changes" >> TableToChanges() | "fail" >> beam.Map(lambda change: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        run(SECOND, SMALL, failing)
    assert Path("log.jsonl").read_bytes() == before


BEFORE = [(1, "a", 1), (2, "b", 3), (3, "c", 7), (4, "d", 7)]
AGAIN = [(1, "A", 7), (3, "C", 7), (5, "E", 7), (1, None, 8), (3, "CC", 9)]


def written_twice(path: str, records: Any, before: Any = BEFORE) -> None:
    """The files of two runs, of which the second begins anew at 7, the position of the last changes of the first one."""
    for name, changes, position in (("1", before, None), ("2", AGAIN, 7)):
        with beam.Pipeline() as pipeline:
            written(path.replace("*", name), records=records, **({"table": "t"} if records == "pairs" else {}))(
                changes_anew(pipeline, changes, position)
            )


def pairs_of_runs(first: Any, *others: Any) -> None:
    """The files of runs with a state, of which all but the first begin anew at 7."""
    for changes, position in ((first, None), *((each, 7) for each in others)):
        with beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state"])) as pipeline:
            _ = table_of(pipeline, [] if position else [small(1, 1, "remembered")], SMALL) | LatestTable()
            written("pairs.jsonl", records="pairs", table="t")(changes_anew(pipeline, changes, position))


def records_of(path: Path) -> list[dict[str, Any]]:
    """The records of a file of changes, in order."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()  # type: ignore[no-any-return]
    if path.suffix == ".arrow":
        return feather.read_table(path).to_pylist()  # type: ignore[no-any-return]
    if path.suffix == ".avro":
        return avro_rows(str(path))
    if path.suffix == ".msgpack":
        return read_msgpack(path)
    if path.suffix == ".csv":
        return csv.read_csv(path).to_pylist()  # type: ignore[no-any-return]
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("format", FORMATS)
def test_changes_of_a_table_that_begins_anew_follow_one_truncate(format: Any) -> None:
    written_twice(f"changes-*.{format}", "changes")
    before, after = (records_of(Path(f"changes-{n}.{format}")) for n in (1, 2))
    assert (after[0]["key"], after[0]["op"], after[0]["position"], after[0]["timestamp"]) == (None, "truncate", 7, None)
    assert [each["op"] for each in before + after].count("truncate") == 1
    table: dict[int, Any] = {}
    for change in before + after:
        table = {} if change["op"] == "truncate" else table | {change["key"]: change["new"]}
    rows = {key: json.loads(row) if isinstance(row, str) and row else row for key, row in table.items() if row}
    assert rows == {3: {"id": 3, "name": "CC"}, 5: {"id": 5, "name": "E"}}


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_changes_with_a_truncate_are_read_again_as_the_table(format: Any) -> None:
    written_twice(f"changes-*.{format}", "changes", [(key, name, at) for key, name, at in BEFORE if at < 7])
    with beam.Pipeline() as pipeline:
        table = pipeline | ReadChangelog(
            f"changes-*.{format}",
            key="key",
            sequence_by="position",
            apply_as_deletes={"op": ["delete"]},
            apply_as_truncates={"op": ["truncate"]},
            schema=None,
        )
        _ = table | LatestTable() | beam.MapTuple(lambda key, value: repr(value["new"])) | beam.io.WriteToText("found")
    assert lines_of("found") == [repr({"id": 3, "name": "CC"}), repr({"id": 5, "name": "E"})]


def test_pairs_of_a_table_that_begins_anew_are_read_by_runs_that_go_on() -> None:
    pairs_of_runs(BEFORE, AGAIN)
    for number in (1, 2):
        with beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state-of-reader"])) as pipeline:
            table = pipeline | "read" >> ReadChangeEvents(f"pairs-00000{number}.jsonl", format="debezium", table="t", key="id")
            _ = table | LatestTable() | WriteParquet("latest")
    rows = [row["value"] for path in Path().glob("latest-*") for row in pq.read_table(path).to_pylist()]
    assert sorted(map(repr, rows)) == [repr({"id": 3, "name": "CC"}), repr({"id": 5, "name": "E"})]


def test_pairs_of_a_pipeline_that_has_changed_are_read_again_as_its_table() -> None:
    def filtered(rows: list[dict[str, Any]], *options: str, negate: bool) -> None:
        with beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state", *options])) as pipeline:
            with_a = vectorized(lambda names: pc.match_substring(names["name"], "a"))
            table = table_of(pipeline, rows, SMALL) | "filter" >> FilterTable(with_a, negate=negate)
            written("pairs.jsonl", records="pairs", table="t")(table)

    filtered([small(1, 1, "ab"), small(2, 2, "a"), small(3, 3, "b"), small(4, 3, "a")], negate=False)
    filtered([small(5, 4, "b"), small(1, 5, None)], "--beam_joins_changed=rebuild", negate=True)
    with beam.Pipeline() as pipeline:
        table = pipeline | ReadChangeEvents("pairs-*.jsonl", format="debezium", table="t", key="id")
        _ = table | LatestTable() | WriteParquet("latest")
    rows = [row["value"] for path in Path().glob("latest-*") for row in pq.read_table(path).to_pylist()]
    assert sorted(row["id"] for row in rows) == [3, 5]


@pytest.mark.parametrize("schema", [None, "declared"])
@pytest.mark.parametrize("format", ["jsonl", "avro", "parquet", "arrow"])
def test_pairs_of_a_table_that_begins_anew_replace_those_of_earlier_runs_where_they_are_read(format: Any, schema: Any) -> None:
    written_twice(f"pairs-*.{format}", "pairs")
    with beam.Pipeline() as pipeline:
        table = pipeline | ReadChangeEvents(f"pairs-*.{format}", format="debezium", table="t", key="id", schema=schema)
        changes_of(table, "found")
    content = dict[int, Any]()
    for line in lines_of("found"):
        change = eval(line, {"Change": Change})
        content[change.key, change.position] = change.new
    assert content == {
        (1, 1): {"id": 1, "name": "a"},
        (1, 7): {"id": 1, "name": "A"},
        (1, 8): None,
        (2, 3): {"id": 2, "name": "b"},
        (2, 7): None,
        (3, 7): {"id": 3, "name": "C"},
        (3, 9): {"id": 3, "name": "CC"},
        (5, 7): {"id": 5, "name": "E"},
    }


def test_pairs_that_begin_anew_at_one_position_again_replace_those_of_the_run_before() -> None:
    pairs_of_runs(BEFORE, [(1, "A", 7), (5, "E", 7)], [(9, "only", 7)])
    with beam.Pipeline() as pipeline:
        table = pipeline | ReadChangeEvents("pairs-*.jsonl", format="debezium", table="t", key="id")
        _ = table | LatestTable() | WriteParquet("latest")
    assert [row["value"] for row in pq.read_table(next(Path().glob("latest-*"))).to_pylist()] == [{"id": 9, "name": "only"}]


@pytest.mark.parametrize("records", ["changes", "pairs"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_table_without_rows_that_begins_anew_is_a_file_of_one_truncate(format: Any, records: Any) -> None:
    if (format, records) == ("csv", "pairs"):
        return
    run([], SMALL, lambda table: written(f"log.{format}", records=records)(anew(table)))
    (only,) = records_of(Path(f"log.{format}"))
    only = only.get("payload", only)
    assert only["op"] == {"changes": "truncate", "pairs": "t"}[records]
    assert {only.get(name) for name in ("key", "old", "new", "before", "after")} <= {None, ""}


@pytest.mark.process
def test_several_workers_write_one_truncate() -> None:
    changes = [(n, f"n{n}", 7) for n in range(64)]
    with runner(PipelineOptions(["--python_workers=3"])) as options, beam.Pipeline(options=options) as pipeline:
        written("changes.jsonl", records="changes")(changes_anew(pipeline, changes, batches=16))
    operations = [each["op"] for each in records_of(Path("changes.jsonl"))]
    assert operations == ["truncate", *["insert"] * 64]


def test_a_truncate_has_the_largest_event_time_of_earlier_runs(tmp_path: Path) -> None:
    for rows, position in ((FIRST, None), ([], 4)):
        run(rows, SMALL, lambda table, at=position: written("log.jsonl", records="changes")(anew(table, at)), state=tmp_path / "state")
    assert Path("log-000002.jsonl").read_text() == ('{"key":null,"op":"truncate","old":null,"new":null,"timestamp":4,"position":4}\n')


def test_upserts_of_a_table_that_begins_anew_are_refused_and_rows_replace_the_file() -> None:
    with pytest.raises(
        ValueError, match=r"begins anew at position 7, and upserts cannot say .*: write changes or pairs .* to a new path"
    ):
        run(FIRST, SMALL, lambda table: written("log.jsonl")(anew(table)))
    run(FIRST, SMALL, lambda table: written("rows.jsonl", records="rows")(anew(table)))
    assert sorted(row["id"] for row in records_of(Path("rows.jsonl"))) == [1, 3]


@pytest.mark.parametrize("format", FORMATS)
def test_a_truncate_fits_keys_and_rows_of_every_type(format: Any) -> None:
    forms = ["changes"] if format == "csv" else ["changes", "pairs"]
    schema = WIDE.append(pa.field("uuid", pa.uuid())).append(pa.field("of", pa.int64()))
    for records in forms:
        path, key = f"{records}.{format}", ["day", "of"]
        with beam.Pipeline() as pipeline:
            _ = anew(table_of(pipeline, [], schema, key=key)) | WriteChangelog(path, records=records, key=key)
        assert len(records_of(Path(path))) == 1


REFUSED: dict[str, tuple[dict[str, Any], pa.Schema]] = {
    "a column 'position', as the change itself": ({}, SMALL.append(pa.field("position", pa.int8()))),
    "Avro takes letters, digits and _ in names": ({"path": "log.avro"}, SMALL.append(pa.field("a b", pa.int8()))),
    "which Avro has no type for": ({"path": "log.avro"}, SMALL.append(pa.field("fine", pa.time64("ns")))),
    "which Debezium has no type for": ({"records": "pairs"}, SMALL.append(pa.field("map", pa.map_(pa.int8(), pa.int8())))),
    "names 2 columns, and the key has 1: key": ({"key": ["id", "name"]}, SMALL),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_table_that_cannot_be_written_is_refused_when_the_transform_is_applied(sentence: str) -> None:
    options, schema = REFUSED[sentence]
    with pytest.raises(ValueError, match=sentence):
        table_of(beam.Pipeline(), [], schema) | WriteChangelog(**{"path": "log.jsonl", "key": "id", **options})


def test_wrong_options_are_refused_at_construction() -> None:
    with pytest.raises(ValueError, match="records='table'"):
        WriteChangelog("log.jsonl", records="table")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="log.txt must end in .avro, .jsonl"):
        WriteChangelog("log.txt")
    opaque = beam.Pipeline() | beam.Create([Change("k", None, 1, 1, 1)])
    with pytest.raises(ValueError, match="WriteChangelog writes typed columns"):
        opaque | WriteChangelog("log.jsonl")


@pytest.mark.sweep
@pytest.mark.spark
def test_on_spark_the_files_are_the_same() -> None:
    inputs = PipelineOptions(["--runner=SparkRunner", "--spark_master_url=local[2]"])
    with runner(inputs) as options, beam.Pipeline(options=options) as pipeline:
        table = table_of(pipeline, WIDE_ROWS, WIDE)
        for path in ("spark.jsonl", "spark.avro"):
            written(str(Path(path).absolute()), records="pairs")(table)
    with beam.Pipeline() as pipeline:
        written("direct.jsonl", records="pairs")(table_of(pipeline, WIDE_ROWS, WIDE))
    assert Path("spark.jsonl").read_bytes() == Path("direct.jsonl").read_bytes()
    assert len(avro_rows("spark.avro")) == 7


def test_numbers_that_other_formats_do_not_have_are_wider_there() -> None:
    schema = pa.schema([("id", pa.uint64()), ("small", pa.uint8()), ("text", pa.large_string()), *list(SMALL)[2:]])
    row = {"id": 2**64 - 1, "small": 255, "text": "x", "lsn": 1, "op": "u"}
    with beam.Pipeline() as pipeline:
        table = table_of(pipeline, [row], schema)
        for path in ("log.jsonl", "log.avro"):
            written(path, records="pairs")(table)
    for path in ("log.jsonl", "log.avro"):
        with beam.Pipeline() as pipeline:
            table = pipeline | ReadChangeEvents(path, format="debezium", key="id")
            _ = table | LatestTable() | WriteParquet(path)
        (actual,) = pq.read_table(next(Path().glob(f"{path}-*"))).to_pylist()
        assert {name: int(value) if name == "id" else value for name, value in actual["value"].items()} == {
            "id": 2**64 - 1,
            "small": 255,
            "text": "x",
        }


@pytest.mark.parametrize("as_", ["upserts", "pairs"])
def test_a_time_that_has_no_text_ends_the_run_and_is_not_written_as_another(as_: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("zoned", pa.timestamp("us", "UTC")), ("lsn", pa.int64()), ("op", pa.string())])
    batch = pa.record_batch([[1], pa.array([1_772_352_000_000_000_000], schema.field(1).type), [1], ["u"]], schema=schema)
    with (
        pytest.raises(Exception, match="there is a time beyond the year 32767, 1772352000000000000 us since 1970") as caught,
        beam.Pipeline() as pipeline,
    ):
        log = pipeline | beam.Create([pa.Table.from_batches([batch])]).with_output_types(pa.Table)
        table = log | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["lsn", "op"])
        written("far.jsonl", records=as_)(table)
    assert isinstance(input_error_in(caught.value), OutputError)
    assert not Path("far.jsonl").exists()


def test_a_negative_time_is_in_the_millisecond_before() -> None:
    with beam.Pipeline() as pipeline:
        written("log.parquet", records="pairs")(table_of(pipeline, [wide(1, -1)], WIDE))
    (row,) = pq.read_table("log.parquet").to_pylist()
    assert (row["source"]["ts_us"], row["source"]["ts_ms"], row["op"], row["before"]) == (-1, -1, "c", None)
