"""A run that cannot go on where earlier ones ended: said in one sentence, wherever it was found out."""

import re

_SAID = re.compile(
    r"\b(?:state_files\.StateRefused|corrupt\.CorruptData): (?P<sentence>[^\n]+?)(?: \[while running '[^\n]*)?$", re.MULTILINE
)
_NAMES = ("StateRefused", "CorruptData")


def refused_state_in(error: BaseException) -> str | None:
    r"""What a StateRefused or a CorruptData that made a run fail says, whether the runner raised it, wrapped it or only wrote it down.

    >>> refused_state_in(RuntimeError("Traceback ...\nbeam_joins.corrupt.CorruptData: runs/000001/a.arrow is gone [while running 'Join']"))
    'runs/000001/a.arrow is gone'
    >>> refused_state_in(RuntimeError("something else"))
    """
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ in _NAMES:
            return re.sub(r" \[while running '[^\n]*$", "", str(cause))
        if said := _SAID.search(str(cause)):
            return said["sentence"]
        cause = cause.__cause__ or cause.__context__
    return None
