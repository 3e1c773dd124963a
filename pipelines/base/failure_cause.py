"""Finds the original exception in a runner's error."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

E = TypeVar("E")
_WHILE: Final = r" \[while running '[^\n]*"


def found_in(error: BaseException, kinds: Mapping[str, Callable[[str], E]]) -> E | None:
    r"""Finds the first exception of one of these kinds in a runner's error, and makes it again from its
    sentence.

    >>> text = "Traceback ...\nbeam_joins.errors.CorruptData: runs/000001/a.arrow is gone [while running 'Join']\n"
    >>> found_in(RuntimeError(text), {"CorruptData": str, "StateRefused": str})
    'runs/000001/a.arrow is gone'
    >>> found_in(RuntimeError("something else"), {"CorruptData": str})
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
