"""WriteParquet: results appear whole or not at all, and do not depend on which batch came first."""

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins.errors import InputError, OutputError
from beam_joins.io import ReadParquet, WriteParquet
from beam_joins.pipelines.base.input_error import input_error_in
from beam_joins.pipelines.results.output_lock import take
from beam_joins.pipelines.systems.files.write_parquet import _Result
from beam_joins.transforms.engine.files.claim import new_claim

ROWS = pa.table({"id": [1, 2, None], "name": ["a", None, "c"], "deleted": [False, True, None]})


def written(path, *batches, **options):
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = (
            [pipeline | str(i) >> beam.Create([batch]).with_output_types(pa.Table) for i, batch in enumerate(batches)]
            | beam.Flatten(pipeline=pipeline)
            | WriteParquet(f"{path}/out", **options)
        )
    return sorted(file.name for file in path.iterdir())


def test_parts_of_a_longer_earlier_result_go_and_other_files_stay(tmp_path):
    for name in ("out-00000-of-00002.parquet", "out-00001-of-00002.parquet"):
        pq.write_table(ROWS, tmp_path / name)
    others = ["other-00000-of-00001.parquet", "out-by-hand.parquet", "out.parquet"]
    for name in others:
        (tmp_path / name).touch()
    assert written(tmp_path, ROWS) == sorted([*others, "out-00000-of-00001.parquet"])


def test_a_result_without_batches_leaves_no_earlier_one_behind(tmp_path):
    pq.write_table(ROWS, tmp_path / "out-00000-of-00001.parquet")
    assert written(tmp_path) == []


def fails(batch):
    raise RuntimeError("no more")


def test_a_failed_run_shows_nothing_and_the_next_one_clears_up(tmp_path):
    pq.write_table(ROWS, tmp_path / "out-00000-of-00001.parquet")
    with pytest.raises(Exception, match="no more"), beam.Pipeline(runner=FnApiRunner()) as pipeline:
        names = pipeline | beam.Create([ROWS[:1]]).with_output_types(pa.Table) | WriteParquet(f"{tmp_path}/out")
        _ = pipeline | "late" >> beam.Create([0]) | beam.Reshuffle() | beam.Map(fails)
        assert names.element_type is str
    assert pq.read_table(tmp_path) in (ROWS, ROWS[:1])
    assert all(path.name == "out-00000-of-00001.parquet" or path.name.startswith(".") for path in tmp_path.iterdir())
    assert written(tmp_path, ROWS[:2]) == ["out-00000-of-00001.parquet"]
    assert pq.read_table(tmp_path) == ROWS[:2]


def test_a_batch_that_cannot_be_written_leaves_the_earlier_result_and_is_named(tmp_path):
    pq.write_table(ROWS, tmp_path / "out-00000-of-00001.parquet")
    bad = pa.table({"id": [1.5], "name": ["a"]})
    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    with pytest.raises(
        Exception, match=r"gave 1.5 .float. for the column 'id' of type int64, which does not hold it exactly"
    ) as failed:
        written(tmp_path, ROWS.drop_columns("deleted"), bad, schema=schema)
    assert isinstance(input_error_in(failed.value), InputError)
    assert pq.read_table(tmp_path) == ROWS


def test_columns_are_matched_by_name_whatever_batch_comes_first(tmp_path):
    batches = [
        pa.table({"id": [1], "new": [{"fk": "x", "s": None}], "list": [[None]]}),
        pa.table({"new": [{"s": "S", "fk": "y"}, None], "id": [2, 3], "list": [[1, 2], None]}),
        pa.table({"id": [4]}),
    ]
    rows = []
    for order in (batches, batches[::-1]):
        written(tmp_path, *order)
        schemas = {pq.read_schema(file).remove_metadata() for file in tmp_path.glob("out-*")}
        assert len(schemas) == 1
        rows.append((schemas, pq.read_table(tmp_path).sort_by("id").to_pylist()))
    assert rows[0] == rows[1]
    assert rows[0][1] == [
        {"id": 1, "new": {"fk": "x", "s": None}, "list": [None]},
        {"id": 2, "new": {"fk": "y", "s": "S"}, "list": [1, 2]},
        {"id": 3, "new": None, "list": None},
        {"id": 4, "new": None, "list": None},
    ]


@pytest.mark.parametrize(
    ("one", "other", "column"), [(1, "a", "x"), (1, 1.5, "x"), ({"y": 1}, {"y": "a"}, "x.y"), ([1], ["a"], "x[]")]
)
def test_a_column_of_two_types_is_named_in_one_sentence(tmp_path, one, other, column):
    batches = [pa.table({"x": [one]}), pa.table({"x": [other]})]
    for order in (batches, batches[::-1]):
        with pytest.raises(Exception, match="give schema=") as failed:
            written(tmp_path, *order)
        sentence = str(input_error_in(failed.value))
        assert sentence.startswith(f"the column '{column}' is of type ")
        assert "\n" not in sentence
    assert not list(tmp_path.glob("*.parquet"))


def test_a_schema_is_met_by_name_and_says_what_does_not_fit(tmp_path):
    schema = pa.schema([pa.field("b", pa.float64()), pa.field("a", pa.int32(), nullable=False)])
    written(tmp_path, pa.table({"a": [1], "b": [2]}), pa.table({"b": [0.5], "a": [3]}), schema=schema)
    assert pq.read_table(tmp_path).schema.equals(schema)
    for batch, message in (
        (pa.table({"a": [1], "b": [2], "c": [3]}), "a column 'c' that schema= does not name"),
        (pa.table({"b": [2.0]}), "a batch gave null for a, which schema= declares nullable=False"),
        (
            pa.table({"a": [2**40], "b": [2.0]}),
            "gave 1099511627776 .int. for the column 'a' of type int32, which does not hold it exactly",
        ),
    ):
        with pytest.raises(Exception, match=message):
            written(tmp_path, batch, schema=schema)


def test_of_two_runs_of_one_process_the_later_one_writes(tmp_path):
    earlier = beam.Pipeline(runner=FnApiRunner())
    _ = earlier | beam.Create([ROWS]).with_output_types(pa.Table) | WriteParquet(f"{tmp_path}/out")
    later = new_claim()
    take(f"{tmp_path}/out", later)
    with pytest.raises(Exception, match="is being written by another run"):
        earlier.run()
    assert not list(tmp_path.glob("*.parquet"))


def test_a_directory_that_cannot_be_is_said_in_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match="file is not a directory") as failed:
        written_to = tmp_path / "file"
        with beam.Pipeline(runner=FnApiRunner()) as pipeline:
            _ = pipeline | beam.Create([ROWS]).with_output_types(pa.Table) | WriteParquet(f"{written_to}/out")
    assert isinstance(input_error_in(failed.value), OutputError)


def test_names_that_look_like_patterns_are_names(tmp_path):
    pq.write_table(ROWS, tmp_path / "a[1].parquet")
    pq.write_table(ROWS[:1], tmp_path / "a1.parquet")
    folder = tmp_path / "to[b]"
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | ReadParquet(f"{tmp_path}/a[1].parquet") | WriteParquet(f"{folder}/x?")
    assert [file.name for file in folder.iterdir()] == ["x?-00000-of-00001.parquet"]
    assert pq.read_table(next(folder.iterdir())) == ROWS


@pytest.mark.parametrize("name", ["out-00001-of-00002.parquet", "link.parquet", "folder/out-00001-of-00002.parquet"])
@pytest.mark.parametrize("writes_first", [False, True])
def test_a_result_that_would_remove_what_the_pipeline_reads_is_refused(tmp_path, name, writes_first):
    for number in range(2):
        pq.write_table(ROWS, tmp_path / f"out-{number:05d}-of-00002.parquet")
    (tmp_path / "link.parquet").symlink_to("out-00001-of-00002.parquet")
    (tmp_path / "folder").symlink_to(tmp_path)
    pipeline = beam.Pipeline(runner=FnApiRunner())
    if writes_first:
        _ = pipeline | beam.Create([ROWS]).with_output_types(pa.Table) | WriteParquet(f"{tmp_path}/out")
    with pytest.raises(InputError, match=f"{name}, which {tmp_path}/out would replace .*, is an input: give"):
        batches = pipeline | ReadParquet(f"{tmp_path}/{name}")
        _ = batches | WriteParquet(f"{tmp_path}/out")


def test_files_beside_a_result_may_be_read(tmp_path):
    for name in ("out-by-hand.parquet", "out.parquet", "other-00000-of-00001.parquet", "out-00000-of-00001.parquet"):
        pq.write_table(ROWS, tmp_path / name)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | ReadParquet(f"{tmp_path}/o*[!1].parquet") | WriteParquet(f"{tmp_path}/out")
        _ = pipeline | "other" >> ReadParquet(f"{tmp_path}/other*") | "too" >> WriteParquet(f"{tmp_path}/out2")
    assert pq.read_table(tmp_path / "out-00000-of-00001.parquet").num_rows == 2 * ROWS.num_rows


def test_one_prefix_twice_in_a_pipeline_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    batches = beam.Pipeline(runner=FnApiRunner()) | beam.Create([ROWS]).with_output_types(pa.Table)
    _ = batches | WriteParquet(f"{tmp_path}/folder/out")
    with pytest.raises(InputError, match="link/out is written twice in this pipeline"):
        _ = batches | "Again" >> WriteParquet(f"{tmp_path}/link/out")
    assert not list((tmp_path / "folder").iterdir())


def staged(result, *batches):
    """The parts of a run that has written its bundles, and has not yet given them their names."""
    result.publication.claim()
    parts = []
    for batch in batches:
        path, file, writer = result.writer(batch.schema)
        with file, writer:
            writer.write_table(batch)
        parts.append((path, writer.schema.serialize().to_pybytes()))
    return parts


def test_a_run_that_a_later_one_has_overtaken_does_not_report_the_later_ones_files_as_its_own(tmp_path):
    earlier = _Result(f"{tmp_path}/out", None, "snappy")
    parts = staged(earlier, ROWS[:1])
    assert written(tmp_path, ROWS) == ["out-00000-of-00001.parquet"]
    with pytest.raises(InputError, match="out has been taken over by a later run: this one has written nothing"):
        earlier.publish(parts)
    assert pq.read_table(tmp_path) == ROWS
    assert [path.name for path in tmp_path.iterdir()] == ["out-00000-of-00001.parquet"]


def test_a_pipeline_that_runs_twice_writes_what_it_has_read_the_second_time(tmp_path):
    pq.write_table(ROWS[:1], tmp_path / "in.parquet")
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | ReadParquet(f"{tmp_path}/in.parquet") | WriteParquet(f"{tmp_path}/out")
    for rows in (ROWS[:1], ROWS[:2]):
        pq.write_table(rows, tmp_path / "in.parquet")
        pipeline.run().wait_until_finish()
        assert pq.read_table(tmp_path / "out-00000-of-00001.parquet") == rows


def test_what_is_read_does_not_carry_the_run_that_wrote_it(tmp_path):
    written(tmp_path, ROWS.replace_schema_metadata({"mine": "kept"}))
    assert b"beam_joins.run" in pq.read_schema(tmp_path / "out-00000-of-00001.parquet").metadata
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        metadata = pipeline | ReadParquet(f"{tmp_path}/out-*") | beam.Map(lambda batch: batch.schema.metadata)
        assert_that(metadata, equal_to([{b"mine": b"kept"}]))
