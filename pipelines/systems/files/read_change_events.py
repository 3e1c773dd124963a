"""ReadChangeEvents: reads the table of the change events of a CDC tool in files."""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from apache_beam.pvalue import PBegin

from beam_joins.elements.content import Emit
from beam_joins.pipelines.changelogs.changelog_rows import checked_schema
from beam_joins.pipelines.changelogs.read_records import OnBadRecord
from beam_joins.pipelines.changelogs.read_table import Reads, ReadTable
from beam_joins.pipelines.systems.files.event_files import EventFiles, EventFormat
from beam_joins.transforms.connect import checks

__all__ = ["ReadChangeEvents"]


class ReadChangeEvents(ReadTable):
    r"""Reads the table of the change events of a CDC tool in files: rows in envelopes, which say time, sequence and
    operation.

    Changes of one transaction have one position where the format tells transactions apart (``docs/envelopes.md`` has a
    table).

    * ``path``: a path or a glob, on any filesystem that Beam knows. With a state a run reads the files that no run has read,
      also of a folder; one that has changed since is refused. Files of JSON lines may be compressed.
    * ``format``: the envelopes of the rows: ``"debezium"`` (with a schema or without, or unwrapped; in JSON, Avro, Parquet
      or Arrow), ``"wal2json"`` (formats 1 and 2) or ``"maxwell"``.
    * ``table``: the table whose rows count, by its full name or the last part of it; by default all rows.
    * ``key``: the columns of the primary key; by default those that the first event names.
    * ``schema``: the columns of the values, a ``pyarrow.Schema``. By default, ``"declared"``, those of the types that the
      events say: Debezium's schemas, wal2json's column types. Without types, or with ``None``, values are dicts, their
      numbers exact. With a state, key and types are those of the first run with a row; columns may come, and types get wider.
    * ``unavailable_value``: the ``unavailable.value.placeholder`` of Debezium's connector for PostgreSQL, or several,
      where it is not the default; an array in JSON, such as ``"[0]"``, stands for arrays of numbers. The value of such a
      column is the key that the row had before.
    * ``emit``: as of :class:`~beam_joins.TableFromChangelog`.
    * ``without_earlier``: as of :class:`~beam_joins.TableFromChangelog`.
    * ``on_bad_record``: ``"fail"``, or ``"drop"`` to go on without events that cannot be read or do not fit their columns;
      ``with_outputs()`` has a sentence for each.

    A dot in the name of a key column leads into a nested one.

    Raises ``ValueError`` at construction for a wrong option; and :class:`~beam_joins.InputError`, a ``ValueError`` too, when it
    is applied, if no file matches, one cannot be read, the key is not known, or no row has a column that an option names, and
    in the run, naming file and line, for an event that is none of the format, and for a row with other columns than the first 10,000
    said. Events about no row are counted (``skipped_transaction_metadata``, ... in the namespace ``beam_joins``).

    >>> import tempfile
    >>> import apache_beam as beam
    >>> from beam_joins import TableToChanges
    >>> line = b'{"op": "c", "after": {"id": 1, "price": 1.50}, "source": {"table": "products", "lsn": 7, "ts_ms": 5}}'
    >>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file, beam.Pipeline() as pipeline:
    ...     _, _ = file.write(line), file.flush()
    ...     products = pipeline | ReadChangeEvents(file.name, format="debezium", table="products", key="id")
    ...     _ = products | TableToChanges() | beam.Map(print)
    Change(key=1, old=None, new={'id': 1, 'price': 1.5}, timestamp=5000, position=7)
    """

    def __init__(
        self,
        path: str,
        *,
        format: EventFormat,
        table: str = "",
        key: str | Sequence[str] | None = None,
        schema: pa.Schema | Literal["declared"] | None = "declared",
        unavailable_value: str | Sequence[str] = (),
        emit: Emit = "updates",
        without_earlier: Literal["fail", "drop"] = "fail",
        on_bad_record: OnBadRecord = "fail",
    ) -> None:
        checks.text("path", path, "a path or a glob")
        checks.choice("format", format, EventFormat)
        checks.text("table", table, "the name of a table", empty=True)
        names = [] if key is None else checks.columns("key", key)
        checks.choice("emit", emit, Emit)
        checks.choice("without_earlier", without_earlier, Literal["fail", "drop"])
        checks.choice("on_bad_record", on_bad_record, OnBadRecord)
        files = EventFiles(path, format, table, names, checked_schema(schema), unavailable_value, on_bad_record)

        def reads(begin: PBegin) -> Reads:
            return files.of_run(begin).table(emit=emit, without_earlier=without_earlier)

        super().__init__(reads)
