"""Tables of figures that are printed line by line, as they are measured."""

from collections.abc import Callable, Iterable, Sequence

from benchmarks.harness.environments import Unavailable
from benchmarks.harness.process import ContestantFailed


def print_lines(columns: Sequence[str], lines: Iterable[tuple[Sequence[str], Callable[[], Sequence[str]]]]) -> int:
    """Print a table in Markdown, whose lines are first cells and a function that measures the others; returns 1 if one has failed.

    >>> def failing() -> Sequence[str]:
    ...     raise ContestantFailed("has no answer")
    >>> print_lines(["query", "rows", "total"], [(["q1"], lambda: ["7", "2.0 s"]), (["q2"], failing)])
    | query | rows | total |
    |---|---|---|
    | q1 | 7 | 2.0 s |
    | q2 | has no answer |
    1
    """
    failed = False
    print(f"{_line(columns)}\n|{'---|' * len(columns)}", flush=True)
    for first, measure in lines:
        try:
            others = measure()
        except Unavailable as error:
            others = [f"skipped: {error}"]
        except ContestantFailed as error:
            failed, others = True, [str(error)]
        print(_line([*first, *others]), flush=True)
    return int(failed)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
