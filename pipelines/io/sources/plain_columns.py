"""Makes the columns of a changelog of plain rows from the options of a reader in Python."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beam_joins.operations import DELETES, NOT_NULL, NULL, UPSERTS, word
from beam_joins.pipelines.formats.columns import Columns, Unit
from beam_joins.transforms import connect

Operations = dict[str, Sequence[str | None]]
"""A column, and some of its values."""


def plain_columns(
    *,
    timestamp_by: str,
    timestamp_unit: Unit,
    sequence_by: str | Sequence[str] | None,
    apply_as_deletes: str | Operations | None,
    apply_as_upserts: Operations | None,
    apply_as_truncates: Operations | None,
    ignored: Operations | None,
) -> Columns:
    """The columns that options name, without the key; raises ``ValueError`` for an option of another form.

    >>> made = plain_columns(
    ...     timestamp_by="at", timestamp_unit="us", sequence_by="lsn", apply_as_deletes={"op": ["d"]}, apply_as_upserts=None,
    ...     apply_as_truncates=None, ignored=None,
    ... )
    >>> made.delete, sorted(made.deletes), "u" in made.upserts
    ('op', ['d'], True)
    """
    connect.text("timestamp_by", timestamp_by, "the column with the event time")
    connect.choice("timestamp_unit", timestamp_unit, Unit)
    order = [] if sequence_by is None else connect.columns("sequence_by", sequence_by)
    deletes, upserts, truncates = apply_as_deletes, apply_as_upserts, apply_as_truncates
    delete, delete_words = (deletes, None) if isinstance(deletes, str) and deletes else _column("apply_as_deletes", deletes)
    upsert, upsert_words = _column("apply_as_upserts", upserts)
    if upsert is not None and upsert != delete:
        raise ValueError(f"apply_as_upserts={upserts!r}: name the column of apply_as_deletes={deletes!r}")
    truncate, truncate_words = _column("apply_as_truncates", truncates)
    ignore, ignored_words = _column("ignored", ignored)
    if delete_words is None:  # the name of a column that is true or false, or absent
        meant, others = DELETES, UPSERTS | {NULL}
    else:
        meant = delete_words
        others = frozenset({NULL}) if NOT_NULL in meant else UPSERTS
    others = (others if upsert_words is None else upsert_words) - meant
    return Columns(
        key=(),
        timestamp=timestamp_by,
        unit=timestamp_unit,
        sequence=order[0] if order else None,
        within=tuple(order[1:]),
        delete=delete,
        deletes=meant,
        upserts=others,
        truncates=truncate_words or frozenset(),
        truncate=truncate,
        ignored=ignored_words or frozenset(),
        ignore=ignore,
        side=None,
    )


def read_option(option: str, value: str | None, read: Callable[[str], str]) -> str:
    """What is read of an option, empty where it is not given; its ``ValueError`` names the option."""
    try:
        return "" if value is None else read(value)
    except ValueError as error:
        raise ValueError(f"{option}=: {error}") from None


def _column(option: str, spec: Any) -> tuple[str | None, frozenset[str] | None]:
    """The one column that an option names, and the words in it; raises ``ValueError`` for another form."""
    if spec is None:
        return None, None
    column, words = next(iter(spec.items())) if isinstance(spec, Mapping) and len(spec) == 1 else ("", ())
    if not isinstance(column, str) or not column or isinstance(words, str | bytes) or not isinstance(words, Sequence) or not words:
        raise ValueError(f"{option}={spec!r}: give one column and some of its values, as in {{'op': ['d']}}")
    return column, frozenset(map(word, words))
