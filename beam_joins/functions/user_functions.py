"""Calls users' functions on copies of their arguments; raises their exceptions or collects them in the output
``bad``.
"""

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature
from typing import Any

import pyarrow as pa

from beam_joins.function_failed import NO_KEY, FunctionFailed, failure
from beam_joins.functions.expressions import of_expression
from beam_joins.functions.marked_functions import MarkedFunction, vectorized, with_key
from beam_joins.values.copying import copied, require_value

ExceptionClass = type[Exception] | tuple[type[Exception], ...]


def require_returns(option: str, function: Any) -> None:
    """Raise ``ValueError`` for a generator or a coroutine function, also within a mark, a ``functools.partial`` or an
    object that is called.

    >>> def pairs(left, right):
    ...     yield left, right
    >>> require_returns("joiner", pairs)
    Traceback (most recent call last):
    ValueError: joiner=pairs is a generator function: give a function that returns its value
    """
    while isinstance(function, partial | MarkedFunction):
        function = function.func if isinstance(function, partial) else function.function
    for called in (function, type(function).__call__) if callable(function) else ():
        for is_such, what in _KINDS:
            if is_such(called):
                name = getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
                raise ValueError(f"{option}={name} is {what}: give a function that returns its value")


def require_takes(option: str, function: Any, count: int, called_with: str) -> None:
    """Raise ``ValueError`` for a function that cannot be called with so many arguments, where it says which it takes;
    ``called_with`` names them.

    >>> require_takes("predicate", lambda value: value > 1, 2, "the key and the value")
    Traceback (most recent call last):
    ValueError: predicate=<lambda>(value) is called with 2 arguments, the key and the value
    """
    if not callable(function) or isinstance(function, vectorized | type):  # a class may have a constructor in C
        return
    if isinstance(function, with_key):
        count, called_with = count + 1, f"the key, {called_with}"
    called = function.function if isinstance(function, MarkedFunction) else function
    try:
        takes = signature(called)
    except (TypeError, ValueError):
        return
    try:
        takes.bind(*range(count))
    except TypeError:
        name = getattr(called, "__qualname__", type(called).__name__).rpartition("<locals>.")[2]
        arguments = "1 argument" if count == 1 else f"{count} arguments"
        raise ValueError(f"{option}={name}{takes} is called with {arguments}, {called_with}") from None


_KINDS = (
    (isgeneratorfunction, "a generator function"),
    (iscoroutinefunction, "a coroutine function"),
    (isasyncgenfunction, "an asynchronous generator function"),
)


class Functions:
    """The user's functions of one applied transform; exceptions of ``exc_class`` go to ``bad``, none if it is
    ``None``.

    It is pickled with a DoFn, so each stage has its own copy when it runs.
    """

    def __init__(self, label: str, exc_class: ExceptionClass | None = None) -> None:
        self._label = label
        self._exc_class = exc_class
        self._bad: list[tuple[Any, int | None]] = []

    def function(self, option: str, value: Any, called: Callable[..., Any] | None = None, *, fresh: bool = False) -> Any:
        """Wraps the function of an option: it gets copies of its arguments and raises ``FunctionFailed``;
        ``None`` if the option is ``None``.

        With ``fresh`` nothing else uses the arguments, and they are not copied. ``called`` is the function
        for an option given as a field's name; it is called without copies, and its ``ValueError`` is raised
        as it is.
        """
        if isinstance(value, of_expression):  # its errors need no function's name
            return value
        if isinstance(value, vectorized):
            return vectorized(partial(self._of_batches, option, value.function))
        if called is None or callable(value):
            called = value
        if not callable(called) or not (callable(value) or self._exc_class):
            return called if called is not None else value
        run, needs_no_copy = called, fresh or not callable(value)

        def call(*values: Any) -> Any:
            try:
                result = run(*values) if needs_no_copy else run(*map(copied, values))
                require_value(result)
                return result
            except Exception as error:
                key, rest = (NO_KEY, values) if len(values) < 2 else (values[0], values[1:])
                raise failure(self._label, option, error, rest, key) from error

        return call

    def failed(
        self, option: str, error: Exception, arguments: Sequence[Any], timestamp: int | None, *, key: Any = NO_KEY, record: Any = None
    ) -> None:
        """Put ``record``, by default ``(key, *given)``, into ``bad``; raise ``FunctionFailed`` if such
        exceptions are not handled.
        """
        failed = self.failure(option, error, arguments, key)
        failed.__cause__ = error
        self.caught((key, *arguments) if record is None else record, failed, timestamp)

    def failure(self, option: str, error: Exception, arguments: Sequence[Any], key: Any = NO_KEY) -> FunctionFailed:
        """The error of a function that raised."""
        return failure(self._label, option, error, arguments, key)

    @property
    def handles_any(self) -> bool:
        """Whether there is an output of bad records."""
        return self._exc_class is not None

    def handles(self, error: BaseException | None) -> bool:
        """Whether an exception goes to ``bad``."""
        return self._exc_class is not None and isinstance(error, self._exc_class)

    def take_bad(self) -> list[tuple[Any, int | None]]:
        """Removes and returns the records collected for ``bad``, each with its time."""
        bad, self._bad = self._bad, []
        return bad

    def caught(self, record: Any, failed: FunctionFailed, timestamp: int | None) -> None:
        """Put a record into ``bad`` with the exception of a function; raise it again if it is not handled.

        A ``timestamp`` of ``None`` is the element's.
        """
        error = failed.__cause__
        if not self.handles(error):
            raise failed
        element = record, (type(error).__name__, str(error), traceback.format_exception(error))
        self._bad.append((element, timestamp))

    def _of_batches(self, option: str, function: Callable[..., Any], *batches: pa.RecordBatch) -> Any:
        try:
            return function(*batches)
        except Exception as error:
            rows = " and ".join(f"{len(batch)} rows of {', '.join(batch.schema.names)}" for batch in batches)
            raise failure(self._label, f"{option} (vectorized, for {rows})", error, ()) from error
