"""The changes of a table in one file, in the order of their positions, which appears when it is whole."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch
from beam_joins.pipelines.changelog_files.change_records import As, ChangeRecords, FileFormat
from beam_joins.pipelines.changelog_files.claim import held, new_claim, release, staging_of, take
from beam_joins.pipelines.changelog_files.formats import format_of
from beam_joins.pipelines.changelog_files.in_order import WriteInOrder, merge, some_at_a_time
from beam_joins.pipelines.changelog_files.outputs import split_suffix
from beam_joins.pipelines.changelog_files.paths import absolute, is_local, remove
from beam_joins.pipelines.changelog_files.publishing import Move, publish
from beam_joins.pipelines.changelog_files.write_parts import WrittenPart
from beam_joins.pipelines.command.input_error import InputError, writing
from beam_joins.pipelines.plain_rows import PlainRows
from beam_joins.transforms.engine.door import in_batches
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.replay_options import folder_for
from beam_joins.transforms.engine.table_type import table_type
from beam_joins.transforms.engine.unbounded import require_bounded, require_global

_OF_SUFFIX: Final = {"json lines": "jsonl", "avro": "avro", "parquet": "parquet"}


class WriteChangelog(beam.PTransform[PCollection[Any], PCollection[str]]):
    """The changes of a table into one file, in the order of their positions; gives its path.

    * ``path``: the file, on any filesystem that Beam knows, with the suffix of its format; JSON lines also ``.gz``, ``.bz2`` and ``.zst``. With ``--beam_joins_state`` each run writes a file
      of its own, ``orders-000001.jsonl`` for ``orders.jsonl``, and so on: one after the other they hold what one run would have written.
    * ``format``: ``"jsonl"``, ``"avro"`` or ``"parquet"``.
    * ``as_``: ``"upserts"``, a record for each change with the columns of the key and of the value (null after a delete), ``timestamp``, ``position`` and ``deleted``; or
      ``"pairs"``, the old and the new row in Debezium's form (``before``, ``after``, ``op``, ``source`` with ``lsn`` for the position and ``ts_us`` for the time, ``ts_ms``), in JSON with
      a schema. ``ReadTable(format="debezium")`` makes the same table of it.
    * ``key``: how the columns of the key are named; by default as those that it was made of, ``key`` where there was one. A column of the value with such a name gives way to it.
    * ``table``: the name of the table in pairs.

    The file gets its name when it is whole, in the place of one that is there; until then its parts lie in a hidden folder beside it.

    Raises ``ValueError`` at construction for a wrong option and for a suffix of another format; when applied for a table of Python objects (opaque), for unbounded
    input, and for columns that the format does not have. In the run :class:`~beam_joins.pipelines.command.input_error.InputError` when another run writes to the path; OutputError if it cannot be written.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from beam_joins import TableFromChangelog
    >>> path = Path(tempfile.mkdtemp()) / "stock.jsonl"
    >>> rows = pa.table({"item": ["apple", "apple"], "count": [7, 8], "lsn": [1, 2]})
    >>> with beam.Pipeline() as pipeline:
    ...     log = pipeline | beam.Create([rows]).with_output_types(pa.Table)
    ...     stock = log | TableFromChangelog(key="item", sequence_by="lsn", timestamp_by="lsn", except_columns=["lsn"])
    ...     _ = stock | WriteChangelog(str(path), key="item")
    >>> print(path.read_text(), end="")
    {"item":"apple","count":7,"timestamp":"1970-01-01T00:00:00.000001Z","position":1,"deleted":false}
    {"item":"apple","count":8,"timestamp":"1970-01-01T00:00:00.000002Z","position":2,"deleted":false}
    """

    def __init__(
        self,
        path: str,
        *,
        format: FileFormat = "jsonl",
        as_: As = "upserts",
        key: str | Sequence[str] | None = None,
        table: str = "",
    ) -> None:
        super().__init__()
        choice("format", format, FileFormat)
        choice("as_", as_, As)
        said = _OF_SUFFIX[format_of("path", path, tuple(_OF_SUFFIX))]
        if said != format:
            raise ValueError(f"path={path!r} is named as a file of format={said!r}, and format={format!r}: give both alike")
        self._path = path
        self._format: FileFormat = format
        self._as: As = as_
        self._key = key
        self._table = table

    def expand(self, pcoll: PCollection[Any]) -> PCollection[str]:
        """Apply the transform."""
        require_global("WriteChangelog", pcoll)
        require_bounded("WriteChangelog", "write it in runs that go on, with --beam_joins_state", pcoll)
        rows = PlainRows("WriteChangelog", table_type(pcoll), self._key)
        folder = folder_for(pcoll)
        stem, suffix = split_suffix(self._path)
        path = self._path if folder is None else f"{stem}-{folder.run:06d}{suffix}"
        result = _Result(path, ChangeRecords(rows, self._as, self._format, self._table))
        begin = pcoll.pipeline | "Begin" >> beam.Create([(0, None)], reshuffle=False).with_output_types(tuple[int, Any])
        parts = in_batches(pcoll) | "Write" >> WriteInOrder(result, result.staging, result.encoded)
        written: PCollection[str] = (
            (parts | "Parts" >> beam.Map(lambda part: (0, part)).with_output_types(tuple[int, Any]), begin)
            | "All" >> beam.Flatten()
            | "Together" >> beam.GroupByKey()
            | "Name" >> beam.MapTuple(lambda _, parts: result.publish(parts)).with_output_types(str)
        )
        return written


class _Result:
    """What a run writes to a path."""

    name = "changes"

    def __init__(self, path: str, records: ChangeRecords) -> None:
        self._path = path
        self._target = absolute(path)
        self._records = records
        self._claim = new_claim()
        self._taken = False
        self.staging = staging_of(self._target, self._claim)

    def create(self, path: str) -> Any:
        """A writer to a new file."""
        # a name without the suffix of a compression, but that of the path
        raw = CompressionTypes.UNCOMPRESSED
        packed = FileSystems.create(path, compression_type=CompressionTypes.detect_compression_type(self._path) or raw)
        return self._records.writer(packed)

    def encoded(self, batch: ChangeBatch) -> Iterator[tuple[ChangeBatch, pa.Array]]:
        """The changes of a batch, some at a time, and their records."""
        if not self._taken:
            self._take()
            self._taken = True
        for some, old, new in some_at_a_time(batch, batch.values):
            yield some, self._records.records(some, old, new)

    def _take(self) -> None:
        with writing(self._path):
            take(self._target, self._claim, again=True)

    def publish(self, given: Iterable[WrittenPart | None]) -> str:
        """Put the parts of this run together in the file; gives its path."""
        parts = sorted(part.path for part in given if part is not None)
        with writing(self._path):
            if parts and not FileSystems.exists(parts[0]) and not held(self._target, self._claim) and FileSystems.exists(self._target):
                return self._path  # an attempt before this one has done it, and its success was not heard of
        if parts:
            self._require_held()
        self._take()  # a run without changes has not yet done so
        with writing(self._path):
            if is_local(self.staging):
                os.makedirs(self.staging, exist_ok=True)
            whole = os.path.join(self.staging, "whole")
            merge(self, parts, whole)
            self._require_held()
            earlier = [self._target] if FileSystems.exists(self._target) else []
            publish([Move(whole, self._target)], earlier, self.staging)
        remove(self.staging)
        release(self._target, self._claim)
        return self._path

    def _require_held(self) -> None:
        if not held(self._target, self._claim):
            raise InputError(f"{self._path} has been taken over by a later run: this one has written nothing")
