"""How the functions of users are called: with values that they may write into, and what becomes of the exceptions that they raise.

An exception becomes a :class:`~beam_joins.function_failed.FunctionFailed`, or, with ``with_exception_handling()``, an element of the output
``bad``: ``(record, (class name, message, traceback lines))``.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from beam_joins.copied import copied, only_reads
from beam_joins.function_failed import NO_KEY, FunctionFailed, failure
from beam_joins.transforms.columns.functions import vectorized
from beam_joins.transforms.outlet import BAD, Outlet, at
from beam_joins.transforms.replay import Operator, Rows

ExceptionClass = type[Exception] | tuple[type[Exception], ...]


class Functions:
    """The functions of one applied transform; ``exc_class`` are the exceptions that go to ``bad``, ``None`` for none of them.

    A stage has one of its own once it runs, as it is pickled with the stage's DoFn.
    """

    def __init__(self, label: str, exc_class: ExceptionClass | None = None) -> None:
        self._label = label
        self._exc_class = exc_class
        self._bad: list[Any] = []
        self._raised: Callable[..., Any] | None = None

    def function(self, option: str, given: Any, called: Callable[..., Any] | None = None, *, fresh: bool = False) -> Any:
        """The function given as ``option``, on copies of its arguments and raising ``FunctionFailed``; ``None`` if none is given.

        ``fresh`` says that nobody else has the arguments, so that they need not be copied.

        ``called`` is what a field's name stands for. That is ours: it needs no copies, and its ``ValueError`` says enough by itself.
        """
        if isinstance(given, vectorized):
            return vectorized(self._of_batches(option, given.function))
        if called is None or callable(given):
            called = given
        if not callable(called) or not (callable(given) or self._exc_class):
            return called if called is not None else given
        run, prepared = (
            called,
            _itself if not callable(given) or only_reads(given) or (fresh and self._exc_class is None) else copied,
        )

        def call(*values: Any) -> Any:
            try:
                # the two usual numbers of arguments without another call for each
                if len(values) == 2:
                    return run(prepared(values[0]), prepared(values[1]))
                return run(prepared(values[0])) if len(values) == 1 else run(*map(prepared, values))
            except Exception as error:
                self._raised = call
                key, rest = (NO_KEY, values) if len(values) < 2 else (values[0], values[1:])
                raise failure(self._label, option, error, rest, key) from error

        return call

    def failed(
        self, option: str, error: Exception, given: Sequence[Any], timestamp: int | None, *, key: Any = NO_KEY, record: Any = None
    ) -> None:
        """Put ``record``, by default ``(key, *given)``, into ``bad``; raise ``FunctionFailed`` if such exceptions are not handled."""
        if not self.handles(error):
            raise self.failure(option, error, given, key) from error
        self.leave_out((key, *given) if record is None else record, error, timestamp)

    def failure(self, option: str, error: Exception, given: Sequence[Any], key: Any = NO_KEY) -> FunctionFailed:
        """The error of a function that raised."""
        return failure(self._label, option, error, given, key)

    @property
    def handles_any(self) -> bool:
        """Whether there is an output of bad records."""
        return self._exc_class is not None

    def handles(self, error: BaseException | None) -> bool:
        """Whether an exception goes to ``bad``."""
        return self._exc_class is not None and isinstance(error, self._exc_class)

    def leave_out(self, record: Any, error: BaseException | None, timestamp: int | None) -> None:
        """Put a record into ``bad``, with what was raised; ``None`` is the time of the element that is being processed."""
        element = record, (type(error).__name__, str(error), traceback.format_exception(error))
        self._bad.append(element if timestamp is None else at(element, timestamp))

    def take(self) -> Iterator[Any]:
        """What has gone to ``bad`` since the last time, for a DoFn to give."""
        bad, self._bad = self._bad, []
        return (TaggedOutput(BAD, element) for element in bad)

    def of_rows(self, call: Callable[[Any, Any], Any]) -> "OfRows":
        """A function of key and value that gives ``None`` where it raises what is handled."""
        return OfRows(self, call)

    def route(self, rows: Rows) -> Rows:
        """``rows`` for records: one whose function raises is left out."""
        if self._exc_class is None:
            return rows

        def handling(element: Any, timestamp: int, outlet: Outlet) -> None:
            try:
                rows(element, timestamp, outlet)
            except FunctionFailed as failed:
                self.caught(element, failed, timestamp)
            self._give(outlet)

        return handling

    def route_batches(self, rows: Rows, arguments: Callable[[Any], Iterable[tuple[Any, ...]]]) -> Rows:
        """``rows`` for batches: without those records for whose ``arguments`` a function raises."""
        if self._exc_class is None:
            return rows

        def handling(batch: Any, arrival: int, outlet: Outlet) -> None:
            while True:
                try:
                    rows(batch, arrival, outlet)
                    return self._give(outlet)
                except FunctionFailed as failed:
                    good = self._good(batch, arguments, failed, arrival)
                if all(good):
                    raise ValueError(
                        "a function raised for a record, and did not when it was called again: it must always do the same"
                    )
                batch = batch.filter(pa.array(good))

        return handling

    def _good(
        self, batch: Any, arguments: Callable[[Any], Iterable[tuple[Any, ...]]], failed: FunctionFailed, arrival: int
    ) -> list[bool]:
        call = self._raised
        if call is None:  # a function of many records, which with_exception_handling refuses
            raise failed
        good = []
        for record, values in zip(batch.to_pylist(), arguments(batch), strict=True):
            try:
                call(*values)
            except FunctionFailed as again:
                self.caught(record, again, arrival)
                good.append(False)
            else:
                good.append(True)
        return good

    def caught(self, record: Any, failed: FunctionFailed, timestamp: int) -> None:
        """Put a record into ``bad`` for what a function raised; raise it again if it is not handled."""
        error = failed.__cause__
        if error is None or not self.handles(error):
            raise failed
        self.leave_out(record, error, timestamp)

    def replay(self, operator: Operator) -> Operator:
        """The operator, giving what has gone to ``bad`` too."""
        return operator if self._exc_class is None else _Handling(operator, self)

    def _give(self, outlet: Outlet) -> None:
        if self._bad:
            bad, self._bad = self._bad, []
            outlet.bad(bad)

    def _of_batches(self, option: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*batches: pa.RecordBatch) -> Any:
            try:
                return function(*batches)
            except Exception as error:
                rows = " and ".join(f"{len(batch)} rows of {', '.join(batch.schema.names)}" for batch in batches)
                raise failure(self._label, f"{option} (vectorized, for {rows})", error, ()) from error

        return call


class OfRows:
    """A function of key and value for both values of a change; ``raised`` is what the last call raised."""

    def __init__(self, functions: Functions, call: Callable[[Any, Any], Any]) -> None:
        self._functions = functions
        self._call = call
        self.raised: BaseException | None = None

    def __call__(self, key: Any, value: Any) -> Any:
        """What the function gives."""
        self.raised = None
        try:
            return self._call(key, value)
        except FunctionFailed as failed:
            if not self._functions.handles(failed.__cause__):
                raise
            self.raised = failed.__cause__

    def report(self, record: Any, timestamp: int | None) -> bool:
        """Put a record into ``bad`` if the last call, that of its new value, raised; that of its old value was reported with an earlier record."""
        if self.raised is not None:
            self._functions.leave_out(record, self.raised, timestamp)
        return self.raised is not None


class _Handling:
    def __init__(self, operator: Operator, functions: Functions) -> None:
        self._operator = operator
        self._functions = functions

    def replay(self, blocks: Iterable[bytes], outlet: Outlet) -> Iterator[Any]:
        yield from self._operator.replay(blocks, outlet)
        self._functions._give(outlet)


def _itself(value: Any) -> Any:
    return value
