"""Files of a lake's table are not read as plain ones: its log says which of them count."""

from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from beam_joins import InputError
from beam_joins.io import ReadChangelog, ReadGrowingFiles, ReadParquet
from beam_joins.pipelines.base import lakes
from beam_joins.pipelines.base.lakes import require_plain
from beam_joins.pipelines.base.paths import files_at
from tests.object_store import Store
from tests.pipelines.join_run import refused
from tests.pipelines.orders_run import Run

LOGS = {
    "a Delta table": "_delta_log/00000000000000000000.json",
    "a Hudi table": ".hoodie/hoodie.properties",
    "an Iceberg table": "metadata/00001-5f.metadata.json",
    "a Paimon table": "schema/schema-0",
    "a Lance dataset": "_versions/1.manifest",
}


def lake(log: str, data: str) -> None:
    for path in (Path("t", log), Path("t", data)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def looked_at(pattern: str) -> None:
    require_plain(pattern, [file.path for file in files_at(pattern)[0]])


@pytest.mark.parametrize("data", ["1.parquet", "day=1/1.parquet", "data/0a/day=1/1.AVRO"])
@pytest.mark.parametrize("title", LOGS)
def test_files_of_a_lake_are_refused_by_its_name(own_directory: Path, title: str, data: str) -> None:
    lake(LOGS[title], data)
    for pattern in (f"t/{data}", f"{Path('t', data).parent}/*", str(Path("t", data).parent), "t/**/*.[pA]*", "*/**/*.[pA]*", "t"):
        with pytest.raises(InputError, match=f"^t is {title}, whose log"):
            looked_at(pattern)


def test_files_of_a_lake_are_refused_in_a_store_too(store: Store) -> None:
    for title, log in LOGS.items():
        folder = f"bucket://in/{title.split()[1]}"
        store.put(f"{folder}/{log}", b"{}")
        store.put(f"{folder}/day=1/1.parquet", b"")
        for pattern in (folder, f"{folder}/", f"{folder}/*/*.parquet", f"{folder}/day=1", f"{folder}/day=1/1.parquet"):
            with pytest.raises(InputError, match=f"^{folder} is {title}, whose log"):
                looked_at(pattern)
    with pytest.raises(InputError, match=r"^bucket://in/\w+ is a"):
        looked_at("bucket://in/")


def test_a_store_is_asked_for_folders_of_a_container_and_not_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(lakes, "_lake_in_store", asked.append)
    require_plain("azfs://account/box/a/*.parquet", ["azfs://account/box/a/1.parquet"])
    assert asked == ["azfs://account/box/a", "azfs://account/box"]


def test_a_folder_above_a_table_that_has_no_file_itself_is_refused(own_directory: Path) -> None:
    write_deltalake("lake/stock", pa.table({"id": [1]}))
    for pattern in ("lake", "lake/", "lake/*.parquet"):
        with pytest.raises(InputError, match=r"^lake/stock is a Delta table, .*: read delta:lake/stock, or by ReadDelta"):
            looked_at(pattern)


def test_a_link_into_a_table_is_refused(own_directory: Path) -> None:
    lake(LOGS["a Delta table"], "1.parquet")
    Path("folder").symlink_to("t")
    Path("file.parquet").symlink_to("t/1.parquet")
    for pattern in ("folder/*.parquet", "folder", "file.parquet", "*.parquet"):
        with pytest.raises(InputError, match="is a Delta table"):
            looked_at(pattern)


def test_files_of_a_duck_lake_are_refused_by_their_names(own_directory: Path) -> None:
    Path("ducklake-01a221e0-ca3e-7a30-87cb-06ef38f10772.parquet").touch()
    with pytest.raises(InputError, match=r"^ducklake-.* is a file of a DuckLake, whose catalog says"):
        looked_at("*.parquet")


def test_what_lies_beside_a_lake_or_is_its_log_is_read(own_directory: Path, store: Store) -> None:
    for log in LOGS.values():
        lake(log, "1.parquet")
    for path in (
        "t/notes.csv",
        "other/1.parquet",
        "t/_delta_log/1.checkpoint.parquet",
        "metadata/orders.json",
        "schema/a",
        "1.parquet",
    ):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).touch()
        looked_at(path)
    for pattern in ("other", "*.parquet", "metadata/*", "none/*.jsonl", "none.parquet", "t/*.csv", "t/later-*.csv"):
        looked_at(pattern)


def test_each_reader_refuses_a_table_of_a_lake(beam_joins: Run) -> None:
    write_deltalake("stock", pa.table({"id": [1]}))
    with pytest.raises(InputError, match="^stock is a Delta table"):
        ReadParquet("stock")
    with pytest.raises(InputError, match="stock is a Delta table"):
        ReadGrowingFiles("stock/*.parquet", timestamp_by="id")
    with pytest.raises(InputError, match="stock is a Delta table"):
        _ = beam.Pipeline() | ReadChangelog("stock/*.parquet", key="id", timestamp_by="id")
    for more in ([], ["--state-dir=st"]):
        ran = beam_joins("table", "--input=stock", "--key=id", "--latest=l.jsonl", *more)
        assert refused(ran).startswith("rows: stock is a Delta table, whose log (in _delta_log) says which of its files count")


def test_a_table_of_a_lake_is_noticed_when_it_was_begun_after_the_reader(own_directory: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), "1.parquet")
    looked_at("*.parquet")
    Path("_delta_log").mkdir()
    looked_at("*.parquet")
    Path("_delta_log/0.json").touch()
    with pytest.raises(InputError, match=r"^\. is a Delta table"):
        looked_at("*.parquet")
