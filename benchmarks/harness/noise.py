"""What figures can tell: their rounds lie apart, and so do the values that are made of them."""

from typing import Final, Literal

from benchmarks.harness.figures import Bounds, Figure

TOO_SHORT: Final = "too short to tell"
Verdict = Literal["kept", "missed", "within noise", "too short to tell", "not measured"]


def bounds(figure: Figure) -> Bounds:
    """Seconds of work at least and at most; the work itself where its rounds are not known."""
    return figure.work_between or Bounds(figure.work, figure.work)


def too_short(figure: Figure) -> bool:
    """Whether its work cannot be told from what its start-up varies by."""
    return bounds(figure).least <= 0


def ratio_bounds(one: Bounds, other: Bounds) -> Bounds:
    """What one value may be of another; without an upper limit if the other may be nothing.

    >>> ratio_bounds(Bounds(2, 4), Bounds(1, 2)), ratio_bounds(Bounds(2, 4), Bounds(0, 2))
    (Bounds(least=1.0, most=4.0), Bounds(least=1.0, most=inf))
    """
    least = one.least / other.most if other.most > 0 else 0.0
    return Bounds(least, one.most / other.least if other.least > 0 else float("inf"))


def verdict(between: Bounds | None, limit: float, *, most: bool, short: bool) -> Verdict:
    """Whether a value keeps a limit, an upper one if ``most``: told only where all that it may be lies on one
    side of it.

    Elsewhere it is too short to tell if a part of it is too ``short``, or if there is no telling what it may
    be.

    >>> verdict(Bounds(0.3, 0.4), 0.5, most=True, short=False), verdict(Bounds(0.3, 0.6), 0.5, most=True, short=False)
    ('kept', 'within noise')
    >>> verdict(Bounds(0.0, 0.6), 0.5, most=True, short=True), verdict(Bounds(0.0, 0.4), 0.5, most=False, short=True)
    ('too short to tell', 'missed')
    """
    if between is None:
        return TOO_SHORT
    if (between.most <= limit) if most else (between.least >= limit):
        return "kept"
    if (between.least > limit) if most else (between.most < limit):
        return "missed"
    return TOO_SHORT if short else "within noise"
