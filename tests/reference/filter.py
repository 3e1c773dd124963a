"""Filtered and mapped tables on old/new pairs (KAFKA-3902), change by change."""

from collections.abc import Callable
from typing import TypeVar

from beam_joins.elements.change import Change, K, V

W = TypeVar("W")


def filter_change(predicate: Callable[[K, V], bool], change: Change[K, V]) -> Change[K, V] | None:
    """The change of the filtered table that follows from a change of the table, or ``None`` where nothing
    does.

    A side that fails the predicate counts as absent; a change from absent to absent is none (KAFKA-3902,
    cases 3a to 3c).

    >>> filter_change(lambda key, value: value < 2, Change("k", 1, 5, timestamp=0, position=0))
    Change(key='k', old=1, new=None, timestamp=0, position=0)
    """
    key, old, new, _, _ = change
    kept_old = old if old is not None and predicate(key, old) else None
    kept_new = new if new is not None and predicate(key, new) else None
    if kept_old is None and kept_new is None:
        return None
    return change._replace(old=kept_old, new=kept_new)


def map_change(fn: Callable[[K, V], W | None], change: Change[K, V]) -> Change[K, W] | None:
    """The change with ``fn(key, value)`` in the place of both values (``None``: no row), or ``None`` where
    nothing is left of it.

    >>> map_change(lambda key, value: value * 10, Change("k", None, 5, timestamp=0, position=0)).new
    50
    """
    key, old, new, timestamp, position = change
    mapped_old = None if old is None else fn(key, old)
    mapped_new = None if new is None else fn(key, new)
    if mapped_old is None and mapped_new is None and not (old is None and new is None):
        return None
    return Change(key, mapped_old, mapped_new, timestamp, position)
