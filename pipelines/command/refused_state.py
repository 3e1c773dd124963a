"""A run that cannot go on where earlier ones ended, or cannot remember where it ends: said in one sentence, wherever it was found out."""

import re


def refused_state_in(error: BaseException) -> str | None:
    r"""What a StateRefused or a CorruptData that made a run fail says, whether the runner raised it, wrapped it or only wrote it down.

    >>> refused_state_in(RuntimeError("Traceback ...\nbeam_joins.corrupt.CorruptData: runs/000001/a.arrow is gone [while running 'Join']"))
    'runs/000001/a.arrow is gone'
    >>> refused_state_in(RuntimeError("something else"))
    """
    return _said(error, "StateRefused", "CorruptData")


def unwritten_state_in(error: BaseException) -> str | None:
    """What a StateNotWritten that made a run fail says."""
    return _said(error, "StateNotWritten")


def _said(error: BaseException, *names: str) -> str | None:
    pattern = rf"\b(?:state_files|corrupt)\.(?:{'|'.join(names)}): (?P<sentence>[^\n]+?)(?: \[while running '[^\n]*)?$"
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ in names:
            return re.sub(r" \[while running '[^\n]*$", "", str(cause))
        if said := re.search(pattern, str(cause), re.MULTILINE):
            return said["sentence"]
        cause = cause.__cause__ or cause.__context__
    return None
