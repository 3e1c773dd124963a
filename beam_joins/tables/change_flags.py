"""Reads deletes, truncates, arrivals and unchanged columns of many records, from values or from Arrow columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.positions import Values
from beam_joins.functions.fields import Marking, deletes_of
from beam_joins.keys.key_columns import Bools
from beam_joins.options.operations import word
from beam_joins.tables.key_handover import Life


def deleted_of(spec: Any, values: Values) -> pa.Array:
    """Which records delete their row; raises ``ValueError`` for a value whose meaning is not known."""
    if not isinstance(values, pa.Array):
        return pa.array(_truths("apply_as_deletes", values), pa.bool_())
    if not callable(spec) and (deletes := deletes_of(spec)):
        return _by_word(values, deletes)
    if not pa.types.is_boolean(values.type) and not pa.types.is_null(values.type):
        raise ValueError(f"apply_as_deletes gave values of type {values.type}: give true for a row that deletes")
    return values.cast(pa.bool_()).fill_null(False)


def marked_of(option: str, spec: Marking, values: Values) -> Bools:
    """The records for which ``apply_as_truncates`` or ``apply_as_inserts`` is true; ``values`` has the result
    of the option for each, or is the column that it names.
    """
    if not isinstance(values, pa.Array):
        return np.fromiter(_truths(option, values), np.bool_, len(values))
    if isinstance(spec, Mapping):
        (texts,) = spec.values()
        words = frozenset(map(word, texts))
        values = _by_word(values, lambda value: word(value) in words)
    if not pa.types.is_boolean(values.type):
        raise ValueError(f"{option} gave values of type {values.type}: give true or false")
    is_marked: Bools = values.fill_null(False).to_numpy(zero_copy_only=False)
    return is_marked


def lives_of(option: str, spec: Marking, values: Values) -> pa.Array:
    """Which records come to their key, or the texts of a :class:`~beam_joins.tables.key_handover.Life` that the option gives.

    >>> lives_of("apply_as_inserts", None, ["", "i,,1f,"]).to_pylist(), lives_of("apply_as_inserts", None, [1, 0]).to_pylist()
    (['', 'i,,1f,'], [True, False])
    """
    if isinstance(spec, Mapping):
        return pa.array(marked_of(option, spec, values))
    if isinstance(values, pa.Array):
        return values if pa.types.is_string(values.type) else pa.array(marked_of(option, spec, values))
    if values and all(isinstance(each, str) and Life.is_text(each) for each in values):
        return pa.array(values, pa.string())
    return pa.array(marked_of(option, spec, values))


def _truths(option: str, values: Sequence[Any]) -> Iterable[bool]:
    """The truth of each value. Raises ``ValueError`` for text, as "false" would be true."""
    if texts := [each for each in values if isinstance(each, str | bytes)]:
        raise ValueError(f"{option} gave {texts[0]!r} of type {type(texts[0]).__name__}: give True or False, not a word for it")
    return map(bool, values)


def unchanged_of(option: str, names: Values) -> pa.Array | None:
    """The names that an option gives for many records, ``None`` if no record leaves any out; raises
    ``ValueError`` for anything but lists of names.

    >>> unchanged_of("unchanged_by", [None, ["bio"], ()]).to_pylist()
    [None, ['bio'], None]
    """
    if not isinstance(names, pa.Array):
        for each in names:
            if each is not None and (isinstance(each, str) or not all(isinstance(name, str) for name in _iterated(option, each))):
                raise ValueError(f"{option} gave {each!r}: give a list of column names, or None")
        names = pa.array([None if each is None else list(each) for each in names], pa.list_(pa.string()))
    try:
        names = names.cast(pa.list_(pa.string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"{option} gave values of type {names.type}: give lists of column names") from None
    some = pc.greater(pc.list_value_length(names), 0).fill_null(False)
    return pc.if_else(some, names, pa.scalar(None, names.type)) if pc.any(some).as_py() else None


def _iterated(option: str, names: Any) -> Sequence[Any]:
    try:
        return list(names)
    except TypeError:
        raise ValueError(f"{option} gave {names!r}: give a list of column names, or None") from None


def _by_word(operations: pa.Array, means: Callable[[Any], Any]) -> pa.Array:
    """The meaning of each operation; the function is called once for each distinct operation."""
    words = operations.dictionary_decode() if pa.types.is_dictionary(operations.type) else operations
    encoded = words.dictionary_encode("encode")
    return pa.array(map(means, encoded.dictionary.to_pylist()), pa.bool_()).take(encoded.indices)
