"""Errors of input and output, shown to users in one sentence and without a stack trace: raised here, or wrapped by a runner."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

from beam_joins.errors import InputError, OutputError, Unavailable, kind_of

E = TypeVar("E")
BEGIN_ANEW: Final = "read it again (--read-again, in Python --beam_joins_read_again), or begin with an empty state"
"""The ways on where a source is not the one that the runs before have read."""
_WHILE: Final = r" \[while running '[^\n]*"


class NoFile(InputError):
    """Raised for a path or a glob that finds no file to read, now or in a run before."""


class NoWholeFile(NoFile):
    """Raised where the only files to read may still grow."""


def exception_in(error: BaseException, kinds: Mapping[str, Callable[[str], E]]) -> E | None:
    r"""Finds the first exception of one of these kinds in a runner's error, and makes it again from its
    sentence.

    >>> text = "Traceback ...\nbeam_joins.errors.CorruptData: runs/000001/a.arrow is gone [while running 'Join']\n"
    >>> exception_in(RuntimeError(text), {"CorruptData": str, "StateRefused": str})
    'runs/000001/a.arrow is gone'
    >>> exception_in(RuntimeError("something else"), {"CorruptData": str})
    """
    written = re.compile(rf"\b\w+\.(?P<kind>{'|'.join(kinds)}): (?P<sentence>[^\n]+?)(?:{_WHILE})?$", re.MULTILINE)
    cause: BaseException | None = error
    while cause is not None:
        for each in type(cause).__mro__:
            if each.__name__ in kinds:
                return kinds[each.__name__](re.sub(rf"{_WHILE}$", "", str(cause)))
        if match := written.search(str(cause)):
            return kinds[match["kind"]](match["sentence"])
        cause = cause.__cause__ or cause.__context__
    return None


def input_error_in(error: BaseException) -> InputError | None:
    r"""The InputError behind a runner's error, or None.

    >>> text = "Traceback ...\nbeam_joins.errors.InputError: a.jsonl:3: not JSON [while running 'Read']"
    >>> input_error_in(RuntimeError(text))
    InputError('a.jsonl:3: not JSON')
    >>> input_error_in(RuntimeError("something else"))
    """
    return exception_in(error, {"InputError": InputError, "OutputError": OutputError, "Unavailable": Unavailable})


def os_sentence(path: str, error: OSError) -> str:
    """Explains an error of the operating system for a path, in one sentence.

    >>> os_sentence("out/e.jsonl", OSError(28, "No space left on device"))
    'out/e.jsonl: No space left on device'
    """
    if isinstance(error, FileExistsError) and error.filename:
        return f"{path}: {error.filename} is not a directory"
    reason = error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
    return f"{path}: {reason}"


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turns an OSError of the block, or an error of a cloud's library, into an OutputError that names the
    path.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) or not ("://" in path or isinstance(error, OSError)):
            raise
        if "://" not in path and isinstance(error, OSError):
            raise OutputError(f"cannot write {os_sentence(path, error)}") from error
        from beam_joins.transforms.connect.files import cause  # noqa: PLC0415  # with Beam, which errors of options do without

        raise kind_of(error, OutputError)(f"cannot write {path}: {cause(error)}") from error
