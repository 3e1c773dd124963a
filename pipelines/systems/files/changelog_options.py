"""Makes the columns of a changelog of rows from the options of a reader."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from beam_joins.options.operations import DELETES, NOT_NULL, NULL, UPSERTS, word
from beam_joins.options.spans import Span, span_micros
from beam_joins.pipelines.formats.changelog_columns import Columns, Unit, flag_of
from beam_joins.pipelines.formats.column_formats import ColumnFormats, formats_of
from beam_joins.pipelines.formats.csv_schema import CsvText, delimiter_of, encoding_of
from beam_joins.transforms.connect import checks

T = TypeVar("T")
U = TypeVar("U")
Operations = dict[str, Sequence[str | None]]
"""A column, and some of its values."""


def plain_columns(
    *,
    timestamp_by: str | None = None,
    timestamp_unit: Unit = "us",
    sequence_by: str | Sequence[str] | None = None,
    apply_as_deletes: str | Operations | None = None,
    apply_as_upserts: Operations | None = None,
    apply_as_truncates: Operations | None = None,
    ignored: Operations | None = None,
    max_ahead: Span | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    column_formats: ColumnFormats | None = None,
    side: str | None = None,
) -> Columns:
    """The columns that options name, without the key; raises ``ValueError`` for an option of another form. ``side`` is that
    of :class:`~beam_joins.pipelines.formats.changelog_columns.Columns`.

    >>> made = plain_columns(timestamp_by="at", sequence_by="lsn", apply_as_deletes={"op": ["d"]})
    >>> made.delete, sorted(made.deletes), "u" in made.upserts
    ('op', ['d'], True)
    """
    if timestamp_by is not None:
        checks.text("timestamp_by", timestamp_by, "the column with the event time")
    checks.choice("timestamp_unit", timestamp_unit, Unit)
    order = [] if sequence_by is None else checks.columns("sequence_by", sequence_by)
    is_alone = isinstance(apply_as_deletes, str) and bool(apply_as_deletes)
    options = {
        "apply_as_deletes": (str(apply_as_deletes), None) if is_alone else _column("apply_as_deletes", apply_as_deletes),
        "apply_as_upserts": _column("apply_as_upserts", apply_as_upserts),
        "apply_as_truncates": _column("apply_as_truncates", apply_as_truncates),
        "ignored": _column("ignored", ignored),
    }
    (delete, deletes), (upsert, upserts), (truncate, truncates), (ignore, ignores) = options.values()
    if max_ahead is not None and timestamp_by is None:
        raise ValueError(f"{flag_of(side, 'max_ahead')} needs {flag_of(side, 'timestamp_by')}: records without a time are not ahead")
    if truncates and timestamp_by is None and not order:
        orders = " or ".join(flag_of(side, option) for option in ("timestamp_by", "sequence_by"))
        raise ValueError(f"{flag_of(side, 'apply_as_truncates')} needs {orders}: a truncate deletes the rows before it")
    if upsert is not None and upsert != delete:
        columns = {"apply_as_upserts": upsert, "apply_as_deletes": delete or "no column"}
        names = [f"{flag_of(side, option)} names {column}" for option, column in columns.items()]
        raise ValueError(f"{' and '.join(names)}: name one column, whose values say the operation")
    for one, other in itertools.combinations(options, 2):
        (column, words), (of_other, words_of_other) = options[one], options[other]
        if column == of_other and (both := sorted((words or frozenset()) & (words_of_other or frozenset()))):
            flags = f"{flag_of(side, one)} and {flag_of(side, other)}"
            raise ValueError(f"{', '.join(both)} stands in both {flags}: a record is one or the other")
    of_others = frozenset().union(*(words for column, words in options.values() if column == delete and words))
    others = frozenset({NULL}) if NOT_NULL in (deletes or ()) else UPSERTS | ({NULL} if is_alone else set())
    return Columns(
        key=(),
        timestamp=timestamp_by,
        unit=timestamp_unit,
        sequence=order[0] if order else None,
        within=tuple(order[1:]),
        delete=delete,
        deletes=DELETES - of_others if deletes is None else deletes,
        upserts=others - of_others if upserts is None else upserts,
        truncates=truncates or frozenset(),
        truncate=truncate,
        ignored=ignores or frozenset(),
        ignore=ignore,
        ahead=None if max_ahead is None else span_micros(flag_of(side, "max_ahead").removesuffix("="), max_ahead),
        csv=CsvText(
            "" if delimiter is None else _read(side, "delimiter", delimiter, delimiter_of),
            "" if encoding is None else _read(side, "encoding", encoding, encoding_of),
            () if column_formats is None else _read(side, "column_formats", column_formats, formats_of),
        ),
        side=side,
    )


def options_of_columns(columns: Columns) -> dict[str, Any]:
    """The options that name columns, by their meaning: two forms of one option are equal.

    >>> options_of_columns(plain_columns(sequence_by="lsn")) == options_of_columns(plain_columns(sequence_by=["lsn"]))
    True
    """
    order = [] if columns.sequence is None else [columns.sequence, *columns.within]
    return {
        "timestamp_by": columns.timestamp,
        "timestamp_unit": None if columns.timestamp is None else columns.unit,
        "sequence_by": order,
        "apply_as_deletes": None if columns.delete is None else {columns.delete: sorted(columns.deletes)},
        "apply_as_truncates": {columns.truncate: sorted(columns.truncates)} if columns.truncate and columns.truncates else None,
        "ignored": {columns.ignore: sorted(columns.ignored)} if columns.ignore and columns.ignored else None,
        **formats_in_memory(columns),
    }


def formats_in_memory(columns: Columns) -> dict[str, Any]:
    """The option for the formats of columns, absent where there are none, as in the memory of versions without the option."""
    return {"column_formats": {name: [*formats] for name, formats in sorted(columns.csv.formats)}} if columns.csv.formats else {}


def _read(side: str | None, option: str, value: T, read: Callable[[T], U]) -> U:
    """The value of an option as ``read`` reads it; a ``ValueError`` names the option."""
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{flag_of(side, option)}: {error}") from None


def _column(option: str, spec: Any) -> tuple[str | None, frozenset[str] | None]:
    """The one column that an option names, and the words in it; raises ``ValueError`` for another form."""
    if spec is None:
        return None, None
    column, words = next(iter(spec.items())) if isinstance(spec, Mapping) and len(spec) == 1 else ("", ())
    if not isinstance(column, str) or not column or isinstance(words, str | bytes) or not isinstance(words, Sequence) or not words:
        raise ValueError(f"{option}={spec!r}: give one column and some of its values, as in {{'op': ['d']}}")
    return column, frozenset(map(word, words))
