"""What is wrong with what the user gave, or why a result cannot be written: said in one sentence, without a stack trace."""

from collections.abc import Iterator
from contextlib import contextmanager

from beam_joins.pipelines.command.found import found_in


class InputError(ValueError):
    """A path, a column or a record that cannot be used. The message is one sentence that names it.

    Raised in a worker too; :func:`input_error_in` finds it again in what the runner makes of it.
    """


class OutputError(InputError):
    """A result that cannot be written: a full disk, a missing permission. The message is one sentence that names it."""


def input_error_in(error: BaseException) -> InputError | None:
    r"""The InputError that made a run fail, whether the runner raised it, wrapped it or only wrote it down.

    >>> input_error_in(RuntimeError("Traceback ...\npipelines.command.input_error.InputError: a.jsonl:3: not JSON [while running 'Read']"))
    InputError('a.jsonl:3: not JSON')
    >>> input_error_in(RuntimeError("something else"))
    """
    return found_in(error, {"InputError": InputError, "OutputError": OutputError})


def os_sentence(path: str, error: OSError) -> str:
    """What an error of the system's means for a path.

    >>> os_sentence("out/e.jsonl", OSError(28, "No space left on device"))
    'out/e.jsonl: No space left on device'
    """
    if isinstance(error, FileExistsError) and error.filename:
        return f"{path}: {error.filename} is not a directory"
    reason = error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
    return f"{path}: {reason}"


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Within the block an OSError becomes an OutputError that names the path; in a cloud whatever its library raises does."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {os_sentence(path, error)}") from error
    except Exception as error:
        if "://" not in path or isinstance(error, InputError):
            raise
        raise OutputError(f"cannot write {path}: {(str(error).splitlines() or [type(error).__name__])[0]}") from error
