"""What is wrong with what the user gave: said in one sentence, without a stack trace."""

import re


class InputError(ValueError):
    """A path, a column or a record that cannot be used. The message is one sentence that names it.

    Raised in a worker too; :func:`input_error_in` finds it again in what the runner makes of it.
    """


_SAID = re.compile(r"\binput_error\.InputError: (?P<sentence>[^\n]+?)(?: \[while running '[^\n]*)?$", re.MULTILINE)


def input_error_in(error: BaseException) -> InputError | None:
    r"""The InputError that made a run fail, whether the runner raised it, wrapped it or only wrote it down.

    >>> input_error_in(RuntimeError("Traceback ...\npipelines.command.input_error.InputError: a.jsonl:3: not JSON [while running 'Read']"))
    InputError('a.jsonl:3: not JSON')
    >>> input_error_in(RuntimeError("something else"))
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, InputError):
            return InputError(re.sub(r" \[while running '[^\n]*$", "", str(cause)))
        if said := _SAID.search(str(cause)):
            return InputError(said["sentence"])
        cause = cause.__cause__ or cause.__context__
    return None
