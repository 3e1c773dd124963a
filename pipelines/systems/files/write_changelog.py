"""WriteChangelog: writes the changes of a table, or its rows, into one file, which appears when it is complete."""

import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins import LatestTable
from beam_joins.errors import InputError, OutputError
from beam_joins.pipelines.base.call_once import CallOnce
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.paths import absolute, beginning_with, is_local, matching, require_file_system
from beam_joins.pipelines.formats.output_records import Anew, As, ChangeRecords
from beam_joins.pipelines.formats.registry import file_format, format_of
from beam_joins.pipelines.formats.types.target_types import json_lines_type, parquet_type
from beam_joins.pipelines.results.output_files import Output, split_suffix
from beam_joins.pipelines.results.paths_in_use import writes_files
from beam_joins.pipelines.results.publication import Move, Publication
from beam_joins.pipelines.results.write_parts import WriteParts, WrittenPart
from beam_joins.transforms.connect.checks import choice, columns, require_bounded, require_global, require_tables, text
from beam_joins.transforms.connect.files import exists
from beam_joins.transforms.connect.runs import StateFolder, before_run, folder_for
from beam_joins.transforms.connect.tables import PlainRows, in_batches, table_type

_SLACK: Final = 2_000_000_000
"""The nanoseconds by which a file system may date a file too early."""
_RUNS: Final = 100_000
"""The runs whose files are looked for; a larger number in the name of a file beside them is a month or a day."""


class WriteChangelog(beam.PTransform[PCollection[Any], PCollection[str]]):
    """Writes the changes of a table into one file, in the order of their positions, or its rows; gives its path.

    * ``path``: the file, on any filesystem that Beam knows. Its suffix says the format: ``.jsonl``, ``.avro``,
      ``.parquet``, ``.arrow`` (Arrow IPC, also called Feather), ``.csv`` or ``.msgpack``; JSON lines, CSV and MessagePack
      also with ``.gz``, ``.bz2`` or ``.zst``. With ``--beam_joins_state`` each run writes a file of its own,
      ``orders-000001.jsonl`` for ``orders.jsonl``, and so on: one after the other they hold what one run
      would have written. The file appears when the run is committed, with the files of other transforms or not at all.
    * ``records``: the records of the file: ``"upserts"``, the row after each change (null after a delete) with
      ``timestamp``, ``position`` and ``deleted``; ``"pairs"``, the rows before and after it in Debezium's form;
      ``"changes"``, with ``key``, ``op`` (``insert``, ``update``, ``delete``), ``old``, ``new``, ``timestamp`` and
      ``position``; or ``"rows"``, the rows that the table has in the end.
    * ``key``: how the columns of the key are named; by default as those that it was made of, ``key`` where
      there was one. A column of the value with such a name gives way to it.
    * ``table``: the name of the table in pairs.

    A change without an event time has null in place of it. Where it has no position either, as of rows that nothing orders,
    ``position`` is null in changes, and in upserts and pairs, which are read again by it, the smallest one,
    :data:`beam_joins.elements.iso_times.NO_TIME`.

    Where the table begins anew, as the pipeline has changed, the first record is a truncate: what the files of earlier runs have
    is void. In changes its ``op`` is ``truncate``, in pairs ``t``; upserts have no word for it, and are refused.

    Pairs have ``before``, ``after``, ``op``, ``source`` with ``lsn`` for the position and ``ts_us`` for the time, and
    ``ts_ms``, in JSON with a schema; of a truncate, and of rows at its position, ``source`` has the number of the run as
    ``sequence``. ``ReadChangeEvents(format="debezium")`` makes the same table of them. Rows are in the order of the hashes of
    their keys; with a state they replace those of the run before.

    The file gets its name when it is whole, with a state when the run is committed, in the place of one that is there; until then
    its parts lie in a hidden folder beside it. The path that the transform gives is that of a file that is there, without a state.

    Raises ``ValueError`` at construction for a wrong option and for a suffix of no format; when applied for a table of
    Python objects (opaque), for unbounded input, for columns that the format does not have, and where a transform of the
    pipeline reads the file, or with a state would read that of a later run. In the run
    :class:`~beam_joins.InputError` when another run writes to the path, or where files of runs behind that of the state are
    beside it; OutputError if it cannot be written.

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
        records: As = "upserts",
        key: str | Sequence[str] | None = None,
        table: str = "",
    ) -> None:
        super().__init__()
        text("path", path, "the path of a file")
        text("table", table, "the name of a table", empty=True)
        if key is not None:
            columns("key", key)
        choice("records", records, As)
        self._path = path
        self._format = format_of("path", path).name
        self._as: As = records
        self._key = key
        self._table = table

    def expand(self, pcoll: PCollection[Any]) -> PCollection[str]:
        """Apply the transform."""
        require_global("WriteChangelog", pcoll)
        require_tables("WriteChangelog", pcoll)
        require_bounded("WriteChangelog", "write it in incremental runs, with --beam_joins_state", pcoll)
        require_file_system("WriteChangelog", self._path)
        stored = json_lines_type if file_format(self._format).of_json and self._as != "pairs" else parquet_type
        rows = PlainRows("WriteChangelog", table_type(pcoll), self._key, stored=stored)
        folder = folder_for(pcoll)
        stem, suffix = split_suffix(self._path)
        of_rows = self._as == "rows"
        path = self._path
        if folder is not None and not of_rows:
            path = f"{stem}-{folder.run:06d}{suffix}"
            before_run(pcoll.pipeline, partial(_require_none_later, folder, stem, suffix))
        writes_files(pcoll.pipeline, self._path, [path], None if folder is None else path)
        records = ChangeRecords(rows, self._as, self._format, self._table)
        result = _Result(Output("changes", path, records, owner=self._path).begun(Anew.of(pcoll, folder)), folder)
        batches: Any = pcoll | "Latest" >> LatestTable() if of_rows else in_batches(pcoll)
        write = beam.ParDo(WriteParts(result.output, result.staging, result.encoded)).with_output_types(WrittenPart)
        written: PCollection[str] = batches | "Write" >> write | "Name" >> CallOnce(result.publish, str)
        return written


class _Result:
    """The result that a run writes to a path; with the ``folder`` of a state its file gets its name when the run is committed."""

    def __init__(self, output: Output, folder: StateFolder | None) -> None:
        self.output, self._encode = output, output.encode
        self._path, self._target = output.path, absolute(output.path)
        # all runs claim one path, so that each removes what one that was killed has left
        self.publication = Publication(absolute(output.claimed), in_workers=True)
        self._claimed = False
        self.staging = self.publication.attempt(absolute(output.claimed))
        self._whole = os.path.join(self.staging, "whole")
        self._handed = None if folder is None else folder.handed(f"file {self._target}")
        if folder is not None:
            folder.before_commit.append(partial(self._move_in, folder.moves))
            folder.when_committed.append(self.publication.release)

    def encoded(self, batch: Any) -> Iterator[pa.RecordBatch]:
        """The records of a batch of changes or rows, some at a time."""
        if not self._claimed:
            with writing(self._path):
                self.publication.claim()
            self._claimed = True
        return self._encode(batch)

    def publish(self, written: Iterable[WrittenPart]) -> list[str]:
        """Put the parts of this run together in the file; gives its path."""
        of_run = list(written)
        parts = sorted(part.path for part in of_run)
        with writing(self._path):
            if parts and not exists(parts[0]):
                self._require_done(max(part.at for part in of_run))
                self.publication.release()
                return [self._path]
            if parts:
                self.publication.require_held()
            if self._handed is not None:
                self.publication.claim()  # a run without changes has not
                self.output.merge(parts, self._whole, removes=False)  # another attempt may need them
                self._handed.put(self._whole)
                return [self._path]
            with self.publication:
                self.output.merge(parts, self._whole, removes=False)
                self.publication.publish([Move(self._whole, self._target)])
        return [self._path]

    def _move_in(self, moves: list[tuple[str, str]]) -> None:
        """Add the file to those that the commit renames. Raises InputError if another run has taken the path over."""
        whole = None if self._handed is None else self._handed.text()
        if whole is None:
            raise OutputError(f"cannot write {self._path}: the run has ended, and no worker says that it is whole")
        with writing(self._path):
            self.publication.require_held()
        moves.append((whole, self._target))

    def _require_done(self, at: int) -> None:
        """Raise InputError unless the file is younger than the parts, which are gone: an attempt before this one has published
        it then, and its success was not heard of. Else, and always with a state, they are on another machine.
        """
        there = next(iter(matching(self._target)), None)
        if self._handed is not None or there is None or (is_local(self._target) and there.written < at - _SLACK):
            raise InputError(
                f"cannot write {self._path}: the parts of this run are not there on {socket.gethostname()}: all machines must reach "
                "its folder by this path"
            )


def _require_none_later(folder: StateFolder, stem: str, suffix: str) -> None:
    """Raise InputError if files of this run or of later ones are there: the state is older than they are. The one file of a first
    run is replaced.
    """
    name = re.compile(rf"{re.escape(absolute(stem))}-(\d{{6,}}){re.escape(suffix)}")
    numbers = (int(match[1]) for match in map(name.fullmatch, beginning_with(f"{stem}-")) if match)
    later = sorted(number for number in numbers if folder.run <= number < folder.run + _RUNS)
    if later and not (folder.is_new and later[-1] == folder.run):
        raise InputError(
            f"cannot write {stem}-{folder.run:06d}{suffix}: the state {folder.files.root} is older than the files beside it, which go "
            f"on to run {later[-1]}: give the state of that run, or remove the files from run {folder.run} on, whose changes are "
            "written anew"
        )
