"""A client of an emulator: a process whose packages are those of this environment, with boto3 and
the client of Azure of the emulators' behind them.

python -m tests.pipelines.stores.client SITE_PACKAGES orders ARGUMENT ...
python -m tests.pipelines.stores.client SITE_PACKAGES write gs://
python -m tests.pipelines.stores.client SITE_PACKAGES put|get gs:// FOLDER
"""

import logging
import sys
from pathlib import Path
from typing import Any


def orders(*arguments: str) -> int:
    from beam_joins.pipelines.orders import main

    return main(list(arguments))


def write(place: str) -> int:
    """Write with the library, and commit a run of one's own; ``place`` begins all paths."""
    import apache_beam as beam
    import pyarrow as pa

    from beam_joins import TableFromChangelog
    from beam_joins.io import ReadParquet, WriteChangelog, WriteParquet
    from beam_joins.transforms.connect.runs import StateFolder

    state = f"{place}state-of-tests/own" if "://" in place else "state-of-tests/own"
    with StateFolder(state) as folder:
        with beam.Pipeline() as pipeline:
            folder.attach(pipeline)
            rows = pa.table({"id": [1, 2, 1], "name": ["a", "b", "c"], "lsn": [1, 2, 3]})
            log = pipeline | beam.Create([rows]).with_output_types(pa.Table)
            _ = (
                log
                | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
                | WriteChangelog(f"{place}out-of-tests/written/log.jsonl")
            )
            _ = log | WriteParquet(f"{place}out-of-tests/written/parquet/rows")
        folder.commit()
    assert ReadParquet(f"{place}out-of-tests/written/parquet").paths == ReadParquet(f"{place}out-of-tests/written/parquet/").paths
    return 0


def conditions(place: str) -> int:
    """Write an object on conditions."""
    from beam_joins.transforms.engine.files.object_clients import objects_at

    path = f"{place}state-of-tests/conditions/a"
    objects = objects_at(path)
    assert objects.write_over(path, b"one", None)
    first = objects.read_version(path)[1]
    assert objects.write_over(path, b"one", None), "an answer that was lost"
    assert not objects.write_over(path, b"other", None)
    assert objects.write_over(path, b"two", first)
    assert not objects.write_over(path, b"other", first)
    content, second = objects.read_version(path)
    assert (content, second == first) == (b"two", False)
    objects.delete([path, f"{path}/not-there"])
    assert not objects.write_over(path, b"other", second)
    assert not objects.exists(path)
    large = bytes(range(256)) * (70 << 10)  # 17.5 MB, in parts
    objects.write(path, large)
    with objects.open(path) as file:
        assert (file.read(7), file.seek(-9, 2), file.read(), file.seek(0), file.read()) == (
            large[:7],
            len(large) - 9,
            large[-9:],
            0,
            large,
        )
    objects.rename(path, f"{path}-renamed")
    assert [file.path for file in objects.matching(f"{path}*")] == [f"{path}-renamed"]
    with objects.create(path) as file:
        assert file.write(b"") == 0
    assert objects.read(path) == b""
    with objects.open(path) as file:
        assert file.read() == b""
    objects.delete([path, f"{path}-renamed"])
    return 0


def put(place: str, folder: str) -> int:
    """Copy a folder into the bucket of inputs."""
    from beam_joins.transforms.connect.files import write_whole

    for path in Path(folder).rglob("*"):
        if path.is_file():
            write_whole(f"{place}in-of-tests/{path.relative_to(folder)}", path.read_bytes())
    return 0


def get(place: str, folder: str) -> int:
    """Copy what is below a place into a folder."""
    from beam_joins.transforms.connect.files import files_below, read_whole

    for path in files_below(place):
        target = Path(folder, path.removeprefix(f"{place}/"))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(read_whole(path) or b"")
    return 0


DO: dict[str, Any] = {"orders": orders, "conditions": conditions, "write": write, "put": put, "get": get}

if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    logging.getLogger().setLevel(logging.ERROR)
    sys.exit(DO[sys.argv[2]](*sys.argv[3:]))
