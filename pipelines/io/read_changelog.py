"""The table of a changelog, in files or Kafka topics."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import pyarrow as pa
from apache_beam.pvalue import PBegin

from beam_joins.content import Emit
from beam_joins.pipelines.changelogs.read_records import OnBadRecord
from beam_joins.pipelines.formats.columns import Unit
from beam_joins.pipelines.formats.layout import delimiter_of, encoding_of
from beam_joins.pipelines.io.sources.changelog_rows import (
    EnvelopedFiles,
    FileFormat,
    rows_of_growing_files,
    rows_of_plain_files,
    rows_of_topics,
)
from beam_joins.pipelines.io.sources.plain_columns import Operations, plain_columns
from beam_joins.pipelines.io.sources.read_table import Reads, ReadTable
from beam_joins.pipelines.io.sources.topic_records import Start
from beam_joins.spans import Span
from beam_joins.transforms import connect

_PLAIN_ONLY: Final[dict[str, Any]] = {
    **dict.fromkeys(("timestamp_by", "timestamp_unit", "sequence_by", "apply_as_deletes", "apply_as_upserts", "apply_as_truncates")),
    **dict.fromkeys(("ignored", "delimiter", "encoding")),
    "except_columns": (),
}
_ENVELOPES_ONLY: Final[dict[str, Any]] = {"table": "", "unavailable_value": (), "without_earlier": "fail"}
_TOPICS_ONLY: Final[dict[str, Any]] = {"schema_registry": None, "start": "earliest", "config": None}
_BOUNDED_ONLY: Final[dict[str, Any]] = {"on_bad_record": "fail", "delimiter": None, "encoding": None}
_FOLLOWED_ONLY: Final[dict[str, Any]] = {"out_of_orderness": 0, "idle_after": None}


class ReadChangelog(ReadTable):
    r"""Reads the table of a changelog in files or Kafka topics: of plain rows, with columns for key, time,
    sequence and delete, or of the change events of a CDC tool.

    * ``source``: a path or a glob, on any filesystem that Beam knows. The suffix says how a file is written:
      JSON lines, also ``.gz``, ``.bz2`` and ``.zst``; CSV with a header; Avro; Parquet; Arrow IPC. Large
      files are read in parts, side by side. With ``bootstrap_servers`` the name of a topic, or several.
    * ``format``: by default each record is a row. ``"debezium"`` (with a schema or without, or unwrapped; in
      JSON, Avro, Parquet or Arrow), ``"wal2json"`` (formats 1 and 2) and ``"maxwell"`` are envelopes. Changes of one
      transaction have one position where the format tells transactions apart (``docs/databases.md`` has a
      table).
    * ``key``: the columns of the primary key; of envelopes in files by default those that the first change
      names. A dot leads into a nested column: ``"customer.id"``.
    * ``schema``: the columns of the values, a ``pyarrow.Schema``. By default, ``"said"``, those of the types
      that files of Parquet and Arrow or envelopes in files say: Debezium's schemas, wal2json's column types.
      Values are typed columns then, UUIDs text, and a value that does not fit its column is a bad record. Where no types
      are said, or with ``None``, they are dicts, their numbers exact. With a state, key and types are those of
      the first run with a row.
    * ``emit``: as of :class:`~beam_joins.TableFromChangelog`.
    * ``on_bad_record``, of files that are read once: ``"fail"``, or ``"drop"`` to go on without records that are
      none of the format or do not fit their columns; ``with_outputs()`` has a sentence for each.
    * ``follow``: goes on with what comes later; by default so for topics, and not for files. Files of plain
      rows are read as by :class:`~beam_joins.pipelines.io.read_growing_files.ReadGrowingFiles` then, one
      after the other; files of envelopes cannot be followed.
    * ``out_of_orderness`` and ``idle_after``, of what is followed: as of
      :class:`~beam_joins.pipelines.io.read_kafka.ReadKafka`.

    Of plain rows, in files:

    * ``timestamp_by``: the column with the event time, which is required: a whole number, a timestamp or date, or its
      text in ISO 8601; in UTC without a zone. ``timestamp_unit``: what a whole number counts since 1970, ``"us"`` by
      default, ``"ms"``, ``"s"`` or ``"ns"``.
    * ``sequence_by``: the column with the position, a whole number or a date; or several, as of
      :class:`~beam_joins.TableFromChangelog`. By default the event time orders the changes. Ties in sequence and event
      time are broken by position in the file (not with ``follow``). With a sequence, a delete sorts before an upsert.
    * ``apply_as_deletes``: a column and its values that mean delete, ``{"op": ["d"]}``, in any case, ``None`` for
      null; or the name of a column that is true for deletes. All other values must be among ``apply_as_upserts``, by
      default the words of :data:`beam_joins.operations.UPSERTS`. ``apply_as_truncates``: a column and its values that
      empty the table.
    * ``except_columns``: columns to leave out of the values.
    * ``ignored``: a column and its values that mean no change, ``{"op": ["update_preimage"]}``. Such records
      are left out, and counted as ``skipped_ignored_operation``.
    * ``delimiter`` and ``encoding``, of CSV: ``","``, ``";"``, ``"tab"`` or ``"|"``, by default as the header shows;
      ``"cp1252"`` or another encoding of Python's, by default as the byte order mark says, else UTF-8.

    Of envelopes:

    * ``table``: the table whose rows count, by its full name or the last part of it; by default all rows of
      the files or topics.
    * ``unavailable_value``: of Debezium's connector for PostgreSQL its ``unavailable.value.placeholder``, or
      several, where that is not the default; an array in JSON, such as ``"[0]"``, for what stands for arrays
      of numbers. A value that it stands for is the one that the row had before.
    * ``without_earlier``: as of :class:`~beam_joins.TableFromChangelog`.

    Of topics (``pip install 'beam-joins[kafka]'``), whose values are envelopes of Debezium or Maxwell. Changes
    of a row must be in one partition, as connectors write them; tombstones are passed over:

    * ``bootstrap_servers``, ``start`` and ``config``: as of
      :class:`~beam_joins.pipelines.io.read_kafka.ReadKafka`.
    * ``schema_registry``: where the schemas of values in Avro are, as Confluent's AvroConverter writes them
      (the byte 0, the number of the schema, the record): an address, or the settings of confluent-kafka's
      ``SchemaRegistryClient``, such as ``{"url": ..., "basic.auth.user.info": "USER:PASSWORD"}``. Workers ask
      it, not the process that builds the pipeline.

    Raises ``ValueError`` at construction for a wrong option, ImportError without confluent-kafka for topics,
    and :class:`~beam_joins.pipelines.base.input_error.InputError`, a ``ValueError`` too, if no file matches,
    one cannot be read, the key is not known, or no row has a column that an option names; and in the run,
    naming file and line or partition and offset, for a record that is none of the format, and for an enveloped
    row with other columns than the first 10,000 said. Records about no row are counted
    (``skipped_transaction_metadata``, ... in the namespace ``beam_joins``).

    >>> import tempfile
    >>> import apache_beam as beam
    >>> from beam_joins import TableToChanges
    >>> line = b'{"op": "c", "after": {"id": 1, "price": 1.50}, "source": {"table": "products", "lsn": 7, "ts_ms": 5}}'
    >>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file, beam.Pipeline() as pipeline:
    ...     _, _ = file.write(line), file.flush()
    ...     products = pipeline | ReadChangelog(file.name, format="debezium", table="products", key="id")
    ...     _ = products | TableToChanges() | beam.Map(print)
    Change(key=1, old=None, new={'id': 1, 'price': 1.5}, timestamp=5000, position=7)

    Rows of CSV:

    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file, beam.Pipeline() as pipeline:
    ...     _, _ = file.write(b"id,price,at,lsn\n1,1.50,5000,7\n"), file.flush()
    ...     read = ReadChangelog(file.name, key="id", timestamp_by="at", sequence_by="lsn", except_columns=["at", "lsn"])
    ...     products = pipeline | read
    ...     _ = products | TableToChanges() | beam.Map(print)
    Change(key=1, old=None, new={'id': 1, 'price': 1.5}, timestamp=5000, position=7)
    """

    def __init__(
        self,
        source: str | Sequence[str],
        *,
        format: FileFormat | None = None,
        key: str | Sequence[str] | None = None,
        schema: pa.Schema | Literal["said"] | None = "said",
        timestamp_by: str | None = None,
        timestamp_unit: Unit | None = None,
        sequence_by: str | Sequence[str] | None = None,
        apply_as_deletes: str | Operations | None = None,
        apply_as_upserts: Operations | None = None,
        apply_as_truncates: Operations | None = None,
        ignored: Operations | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        except_columns: Sequence[str] = (),
        table: str = "",
        unavailable_value: str | Sequence[str] = (),
        emit: Emit = "updates",
        without_earlier: Literal["fail", "drop"] = "fail",
        on_bad_record: OnBadRecord = "fail",
        follow: bool | None = None,
        out_of_orderness: Span = 0,
        idle_after: Span | None = None,
        bootstrap_servers: str | None = None,
        schema_registry: str | Mapping[str, Any] | None = None,
        start: Start = "earliest",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        options = locals()
        if format is not None:
            connect.choice("format", format, FileFormat)
        of_topics = bootstrap_servers is not None
        path = "" if of_topics else connect.text("source", source, "a path or a glob, or topics with bootstrap_servers=")
        connect.text("table", table, "the name of a table", empty=True)
        connect.choice("emit", emit, Emit)
        connect.choice("without_earlier", without_earlier, Literal["fail", "drop"])
        connect.choice("on_bad_record", on_bad_record, OnBadRecord)
        followed = of_topics if follow is None else connect.flag("follow", follow)
        names = [] if key is None and format is not None and not of_topics else connect.columns("key", key)
        if not (schema is None or schema == "said" or isinstance(schema, pa.Schema)):
            raise ValueError(f"schema={schema!r}: give a pyarrow.Schema, 'said' or None")
        _refuse(options, _ENVELOPES_ONLY, format is None, "envelopes: give format= too")
        _refuse(options, _PLAIN_ONLY, format is not None, f"plain rows: format={format!r} says it")
        _refuse(options, _TOPICS_ONLY, not of_topics, "topics: give bootstrap_servers= too")
        _refuse(options, _FOLLOWED_ONLY, not (followed or of_topics), "what is followed: give follow=True too")
        _refuse(options, _BOUNDED_ONLY, followed or of_topics, "files that are read once")
        if format is None and of_topics:
            raise ValueError("bootstrap_servers= is for envelopes: give format=, or use ReadKafka and TableFromChangelog")
        if format is None:
            columns = plain_columns(
                by=connect.text("timestamp_by", timestamp_by, "the column with the event time, or format= for envelopes"),
                unit=connect.choice("timestamp_unit", "us" if timestamp_unit is None else timestamp_unit, Unit),
                order=[] if sequence_by is None else connect.columns("sequence_by", sequence_by),
                deletes=apply_as_deletes,
                upserts=apply_as_upserts,
                truncates=apply_as_truncates,
                ignored=ignored,
                csv=(_named("delimiter", delimiter, delimiter_of), _named("encoding", encoding, encoding_of)),
            )
            omitted = connect.columns("except_columns", except_columns, none=True)
            if followed:
                rows = rows_of_growing_files(path, columns, names, schema, omitted, out_of_orderness, idle_after)
            else:
                rows = rows_of_plain_files(path, columns, names, schema, omitted, on_bad_record)
            super().__init__(rows.table(emit=emit, except_columns=omitted, ordered=not followed).of_run)
            return
        if of_topics:
            consumer: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "start": start, "config": config, "follow": followed}
            consumer |= {"out_of_orderness": out_of_orderness, "idle_after": idle_after}
            typed = schema if isinstance(schema, pa.Schema) else None
            of_run = rows_of_topics(source, format, table, names, typed, schema_registry, unavailable_value, consumer).of_run
        elif followed:
            raise ValueError("follow=True: files of envelopes do not grow; follow their topic, or run again with a state")
        else:
            of_run = EnvelopedFiles(path, format, table, names, schema, unavailable_value, on_bad_record).of_run

        def reads(begin: PBegin) -> Reads:
            return of_run(begin).table(emit=emit, without_earlier=without_earlier)

        super().__init__(reads)


def _named(option: str, value: Any, read: Callable[[str], str]) -> str:
    try:
        return "" if value is None else read(value)
    except ValueError as error:
        raise ValueError(f"{option}=: {error}") from None


def _refuse(options: Mapping[str, Any], of: Mapping[str, Any], refused: bool, sentence: str) -> None:
    for option, default in of.items() if refused else ():
        if options[option] != default and not (default == () and options[option] == []):
            raise ValueError(f"{option}= is for {sentence}")
