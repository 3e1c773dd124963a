"""``FunctionFailed``: the error for a user's function that raised, with the transform, the option, the key
and the arguments.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from reprlib import Repr
from typing import Any, Final


class _Absent(Enum):
    KEY = "no key"


NO_KEY: Final = _Absent.KEY
"""Stands for a missing key. It is an enum member because unpickling one gives the same object."""


class FunctionFailed(RuntimeError):
    """Raised when a function that was passed to a transform raises; says which function, for which key, with
    which arguments.

    The message is one sentence: it names the transform by its label, the option that the function was given
    as, the exception, the key (where there is one) and the records. The exception itself is ``__cause__``.

    A runner may raise it again with the name of a step behind the message, or only write it into a message of
    its own.

    >>> raise failure("Enrich", "joiner", KeyError("name"), [{"id": 7}, None], key=7)
    Traceback (most recent call last):
    beam_joins.function_failed.FunctionFailed: Enrich: joiner raised KeyError: 'name' for the key 7, given {'id': 7}, None

    A function that takes a row for an object is told so:

    >>> row = {"id": 7}
    >>> try:
    ...     row.id
    ... except AttributeError as error:
    ...     print(str(failure("Filter", "predicate", error, [row])).partition("; ")[2])
    rows of typed columns are dicts: row['id'], or TableFromChangelog(schema=None), which keeps Python objects
    """


def failure(label: str, option: str, error: BaseException, arguments: Sequence[Any], key: Any = NO_KEY) -> FunctionFailed:
    """The error to raise, from ``error``, for a user's function that raised ``error`` when called with
    ``arguments``.
    """
    message = " ".join(str(error).split())
    what = type(error).__name__ + (f": {_short.repr_line(message)}" if message else "")
    of_key = "" if key is NO_KEY else f" for the key {_short.repr(key)}"
    values = f", given {', '.join(map(_short.repr, arguments))}" if arguments else ""
    return FunctionFailed(f"{label}: {option} raised {what}{of_key}{values}{_remedy(error, arguments)}")


def _remedy(error: BaseException, arguments: Sequence[Any]) -> str:
    """The remedy for a function that takes a row, or the row of a table of dicts, which functions get as a copy, for an object."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, dict) or error.obj not in arguments:
        return ""
    if not any(error.obj is each for each in arguments):
        return f"; rows of this table are dicts: row[{error.name!r}]"
    return f"; rows of typed columns are dicts: row[{error.name!r}], or TableFromChangelog(schema=None), which keeps Python objects"


def shortened(value: Any) -> str:
    """A value as messages show it: on one line, of at most 300 characters."""
    return _short.repr(value)


@contextmanager
def called_with_no_rows() -> Iterator[None]:
    """For calls of vectorized functions while a pipeline is built: turns :class:`FunctionFailed` into a
    ``ValueError``.
    """
    try:
        yield
    except FunctionFailed as error:
        raise ValueError(f"{error}; it is called with no rows when the pipeline is built, to know what it gives") from error


class _Short(Repr):
    """Shortened representations of values, on one line."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple = 4, 12, 6, 6
        self.maxstring = self.maxother = 80

    def repr(self, value: Any) -> str:
        """At most 300 characters."""
        return self.repr_line(" ".join(super().repr(value).split()))

    def repr_line(self, line: str) -> str:
        """The line itself, or its beginning and its end."""
        return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 60]} ... {line[-55:]}"


_LONGEST = 300
_short = _Short()
