"""Files that promise or unpack to more than there is memory: a sentence, in little memory."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from beam_joins import CorruptData
from beam_joins.coders import read_block, write_block
from beam_joins.coders.checked import checked, unchecked
from tests.hostile.changelogs import WRITTEN, bz2, gzip, zstd
from tests.pipelines.orders_run import ENVIRONMENT

READS = """
import resource, sys
from pathlib import Path
from beam_joins.errors import InputError
from tests.hostile.changelogs import read

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
for path in sys.argv[1:]:
    try:
        read(Path(path), "drop")
    except InputError as error:
        print(error)
"""
PIECE = b" " * (64 << 20)


def told(*paths: Path) -> str:
    """What is said of files in a process with 3 GB of addresses."""
    done = subprocess.run(
        [sys.executable, "-c", READS, *map(str, paths)], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.process
@pytest.mark.parametrize("suffix", ["zst", *(pytest.param(name, marks=pytest.mark.sweep) for name in ("bz2", "gz"))])
def test_a_small_file_that_unpacks_to_gigabytes_without_a_newline_is_told_in_a_sentence(suffix: str, tmp_path: Path) -> None:
    piece = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstd}[suffix](PIECE)
    path = tmp_path / f"orders.jsonl.{suffix}"
    path.write_bytes(piece * 5)
    assert told(path) == f"orders: {path} has a line of more than 268,435,456 bytes"


@pytest.mark.parametrize("column", [pa.array(["text"] * 1_000), pa.array([b"bytes", None] * 500)], ids=["text", "bytes"])
def test_a_block_that_says_it_is_ten_gigabytes_is_corrupt(column: pa.Array) -> None:
    content = bytes(unchecked(write_block(pa.table({"key": column}), "left")))
    sizes = [buffer.size.to_bytes(8, "little") for buffer in column.buffers() if buffer is not None]
    promised = content
    for size in sizes:
        promised = promised.replace(size, (10 << 30).to_bytes(8, "little"))
    assert promised != content
    with pytest.raises(CorruptData, match="bytes are not a block"):
        read_block(checked(promised))


@pytest.mark.process
@pytest.mark.gate
@pytest.mark.parametrize("name", ["orders.avro", "zstd.parquet"])
def test_a_file_of_which_a_part_says_it_is_ten_gigabytes_is_told_in_a_sentence(name: str, tmp_path: Path) -> None:
    row = {"order_id": 1, "customer_id": 1, "amount": 1.5, "status": "x" * 300, "op": "c", "lsn": 1, "updated_at": 1}
    data = WRITTEN[name]([row])
    promises = [at for at in range(len(data) - 5) if data[at] & 0x80 and not data[at + 1] & 0x80]
    assert promises
    paths = []
    for at in promises[:: max(1, len(promises) // 6)]:
        paths.append(tmp_path / f"{at}-{name}")
        paths[-1].write_bytes(data[:at] + b"\xfe\xff\xff\xff\x4f" + data[at + 2 :])  # a number of many bytes, of ten times 2^30
    said = told(*paths)
    assert all(line.startswith("orders: ") for line in said.splitlines())
    assert "must end in" not in said
