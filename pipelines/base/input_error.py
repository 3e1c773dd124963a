"""Errors of input and output that are shown to users in one sentence, without a stack trace."""

from collections.abc import Iterator
from contextlib import contextmanager

from beam_joins.pipelines.base.failure_cause import found_in


class InputError(ValueError):
    """A path, a column or a record that cannot be used. The message is one sentence that names it.

    Raised in a worker too; :func:`input_error_in` finds it again in what the runner makes of it.
    """

    _tagged_with_step = True
    """Beam logs the stack trace of an exception, and names the step behind its message, only where it does
    not have this attribute.
    """


class OutputError(InputError):
    """A result that cannot be written: a full disk, a missing permission.

    The message is one sentence that names it.
    """


def input_error_in(error: BaseException) -> InputError | None:
    r"""The InputError behind a runner's error, or None.

    >>> text = "Traceback ...\npipelines.base.input_error.InputError: a.jsonl:3: not JSON [while running 'Read']"
    >>> input_error_in(RuntimeError(text))
    InputError('a.jsonl:3: not JSON')
    >>> input_error_in(RuntimeError("something else"))
    """
    return found_in(error, {"InputError": InputError, "OutputError": OutputError, "BlocksNotWritten": OutputError})


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
        from beam_joins.transforms.connect import cause  # noqa: PLC0415  # with Beam, which errors of options do without

        raise OutputError(f"cannot write {path}: {cause(error)}") from error
