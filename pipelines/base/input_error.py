"""Errors of input and output, shown to users in one sentence and without a stack trace."""

from collections.abc import Iterator
from contextlib import contextmanager

from beam_joins.errors import InputError, OutputError
from beam_joins.pipelines.base.failure_cause import found_in


def input_error_in(error: BaseException) -> InputError | None:
    r"""The InputError behind a runner's error, or None.

    >>> text = "Traceback ...\nbeam_joins.errors.InputError: a.jsonl:3: not JSON [while running 'Read']"
    >>> input_error_in(RuntimeError(text))
    InputError('a.jsonl:3: not JSON')
    >>> input_error_in(RuntimeError("something else"))
    """
    return found_in(error, {"InputError": InputError, "OutputError": OutputError})


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
