"""The kinds of joins, as the option ``how`` names them.

``"inner"``: pairs. ``"left"``, ``"right"``, ``"outer"``: pairs, and the unmatched rows of that side, or of
both. ``"semi"``: left rows that have a right row; ``"anti"``: left rows that have none; the result is made of
the left value alone.
"""

from typing import Literal

How = Literal["inner", "left", "right", "outer", "semi", "anti"]
"""All kinds."""

PairHow = Literal["inner", "left", "right", "outer"]
"""The kinds whose results have a place for each side."""

WindowedHow = Literal["inner", "left", "outer"]
"""The kinds of joins of windowed tables, and of streams by closeness in time."""

LookupHow = Literal["inner", "left"]
"""The kinds of joins in which a record of a stream looks up a row."""


def keeps_unmatched(how: How) -> tuple[bool, bool]:
    """Whether left and right rows without a match have a result.

    >>> keeps_unmatched("left"), keeps_unmatched("outer")
    ((True, False), (True, True))
    """
    return how in ("left", "outer", "anti"), how in ("right", "outer")
