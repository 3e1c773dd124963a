"""The records of results come in their order, whatever the order and the size of the batches that they are of."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_joins import ChangeBatch
from beam_joins.keys.hashes import hashes
from beam_joins.pipelines.formats.output_records import TextRecords
from beam_joins.pipelines.formats.parquet import ParquetEncoder
from beam_joins.pipelines.formats.row_encoding import json_changes
from beam_joins.pipelines.results.output_files import Output, Staging
from beam_joins.pipelines.results.sorted_output import ChangesInOrder, RowsInOrder
from beam_joins.pipelines.results.write_parts import WriteParts, WrittenPart
from beam_joins.transforms.connect.files import create_file


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_joins.pipelines.results.sorted_output.AT_A_TIME", 4)


def random_batch(seed: int) -> ChangeBatch:
    """Changes of text rows in any order, several at a position, some with old values of other batches."""
    chance = random.Random(seed)
    count = chance.randrange(30)
    before = [chance.choice([None, *range(count + 3)]) for _ in range(count)]
    positions = [chance.randrange(8) for _ in range(count)]
    return ChangeBatch(
        key=pa.array([f"key {n}" for n in range(count)], pa.string()),
        new=pa.array([chance.choice([None, b'{"n":%d}' % n]) for n in range(count)], pa.binary()),
        before=pa.array(before, pa.int64()),
        timestamp=pa.array(range(count), pa.int64()),
        position=pa.array(positions, pa.int64()),
        earlier=pa.array([b"{}", b'{"e":1}', None], pa.binary()),
    )


def placed(positions: pa.Array, keys: pa.Array, records: pa.Array) -> list[tuple[int, int, bytes]]:
    columns = [positions, pa.array(hashes(keys).view(np.int64)), records]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[int, int, bytes]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(12))
def test_the_records_of_a_batch_are_ordered_by_position_and_hash(seed: int) -> None:
    batch = random_batch(seed)
    made = list(ChangesInOrder(json_changes)(batch))
    assert rows_of(made) == placed(batch.position, batch.key, json_changes(batch, batch.old, batch.new))
    assert max(map(len, made), default=0) <= 4


def test_the_rows_of_a_table_are_ordered_by_the_hashes_of_their_keys() -> None:
    keys = pa.array([f"key {n}" for n in range(11)])
    values = pa.array([b"%d\n" % n for n in range(11)])
    made = list(RowsInOrder(lambda _, values: values)(pa.record_batch({"key": keys, "value": values})))
    hashed = pa.array(hashes(keys).view(np.int64))
    assert rows_of(made) == placed(hashed, keys, values)
    assert list(map(len, made)) == [4, 4, 3]


@pytest.mark.parametrize("piece_bytes", [0, 200, 1 << 22])
def test_large_batches_are_parts_of_their_own_and_small_ones_are_sorted_together(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.results.write_parts._PIECE_BYTES", piece_bytes)
    output = Output("changes", "out/e.jsonl", TextRecords())
    batches = [random_batch(seed) for seed in range(20, 26)]
    with Staging([output]) as staging:
        writer = WriteParts(output, staging.attempt(output.claimed), ChangesInOrder(json_changes))
        writer.start_bundle()
        parts: list[WrittenPart] = [part for batch in batches for part in writer.process(batch)]
        parts += [each.value for each in writer.finish_bundle()]
        staging.publish_parts({"changes": [part.path for part in parts]})
    records = [placed(each.position, each.key, json_changes(each, each.old, each.new)) for each in batches]
    together = sorted(row for each in records for row in each)
    lines = Path("out/e.jsonl").read_bytes().splitlines(keepends=True)
    assert sorted(lines) == sorted(record for _, _, record in together)
    positions = {record: position for position, _, record in together}
    assert [positions[line] for line in lines] == [position for position, _, _ in together]
    assert sum(part.records for part in parts) == len(together)


def test_records_written_a_few_at_a_time_are_one_row_group_of_parquet(own_directory: Path) -> None:
    records = ParquetEncoder(pa.schema({"n": pa.int64()}), pairs=False)
    writer = records.writer(create_file("e.parquet"))
    for numbers in ([1, 2], [3], []):
        writer.write(records.encoded([pa.array(numbers, pa.int64())]))
    writer.close()
    parquet = pq.ParquetFile("e.parquet")
    assert parquet.num_row_groups == 1
    assert parquet.read()["n"].to_pylist() == [1, 2, 3]
