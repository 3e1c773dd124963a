"""Makes the columns of a changelog of plain rows from the options of a reader in Python."""

from collections.abc import Mapping, Sequence
from typing import Any

from beam_joins.operations import DELETES, NOT_NULL, NULL, UPSERTS, word
from beam_joins.pipelines.formats.columns import Columns, Unit

Operations = dict[str, Sequence[str | None]]
"""A column, and some of its values."""


def plain_columns(
    *,
    by: str,
    unit: Unit,
    order: Sequence[str],
    deletes: str | Operations | None,
    upserts: Operations | None,
    truncates: Operations | None,
    ignored: Operations | None,
    csv: tuple[str, str],
) -> Columns:
    """The columns that options name, without the key; raises ``ValueError`` for an option of another form.

    >>> made = plain_columns(
    ...     by="at", unit="us", order=["lsn"], deletes={"op": ["d"]}, upserts=None, truncates=None, ignored=None, csv=("", "")
    ... )
    >>> made.delete, sorted(made.deletes), "u" in made.upserts
    ('op', ['d'], True)
    """
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
        timestamp=by,
        unit=unit,
        sequence=order[0] if order else None,
        within=tuple(order[1:]),
        delete=delete,
        deletes=meant,
        upserts=others,
        truncates=truncate_words or frozenset(),
        truncate=truncate,
        ignored=ignored_words or frozenset(),
        ignore=ignore,
        csv=csv,
        side=None,
    )


def _column(option: str, spec: Any) -> tuple[str | None, frozenset[str] | None]:
    """The one column that an option names, and the words in it; raises ``ValueError`` for another form."""
    if spec is None:
        return None, None
    column, words = next(iter(spec.items())) if isinstance(spec, Mapping) and len(spec) == 1 else ("", ())
    if not isinstance(column, str) or not column or isinstance(words, str | bytes) or not isinstance(words, Sequence) or not words:
        raise ValueError(f"{option}={spec!r}: give one column and some of its values, as in {{'op': ['d']}}")
    return column, frozenset(map(word, words))
