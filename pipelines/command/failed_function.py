"""A function of a pipeline that raised: said in one sentence, whichever runner it raised on."""

import re

from beam_joins import FunctionFailed

_SAID = re.compile(r"\bfunction_failed\.FunctionFailed: (?P<sentence>[^\n]+?)(?: \[while running '[^\n]*)?$", re.MULTILINE)


def failed_function_in(error: BaseException) -> FunctionFailed | None:
    r"""The FunctionFailed that made a run fail, whether the runner raised it, wrapped it or only wrote it down.

    >>> text = "Traceback ...\nbeam_joins.function_failed.FunctionFailed: Enrich: joiner raised KeyError: 'n' [while running 'Enrich/Run']\n"
    >>> failed_function_in(RuntimeError(text))
    FunctionFailed("Enrich: joiner raised KeyError: 'n'")
    >>> failed_function_in(RuntimeError("something else"))
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FunctionFailed):
            return FunctionFailed(re.sub(r" \[while running '[^\n]*$", "", str(cause)))
        if said := _SAID.search(str(cause)):
            return FunctionFailed(said["sentence"])
        cause = cause.__cause__ or cause.__context__
    return None
