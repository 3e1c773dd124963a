"""The best settings of each contestant in each case, as ``python -m benchmarks.settings`` has found them."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

FILE: Final = Path(__file__).parents[1] / "settings.json"
_COLUMNS: Final = ("contestant", "case", "best settings", "total with the defaults", "total with these", "tried")
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Searched(NamedTuple):
    """The settings of a contestant that are best in a case, without those that are its defaults; the seconds of a run with the
    defaults and with these, start-up included, ``None`` where they were not kept; and the number of settings that were tried.
    """

    contestant: str
    case: str
    settings: Mapping[str, str]
    default_seconds: float | None
    seconds: float | None
    tried: int


@cache
def searched(file: Path = FILE) -> Mapping[tuple[str, str], Searched]:
    """The findings of a file by contestant and case."""
    return {(each["contestant"], each["case"]): Searched(**each) for each in json.loads(file.read_text(encoding="utf-8"))}


def keep(found: Iterable[Searched], file: Path = FILE) -> None:
    """Add findings to a file, in place of those of their contestants and cases."""
    every = {**searched(file), **{(each.contestant, each.case): each for each in found}}
    lines = ",\n".join(json.dumps(every[key]._asdict()) for key in sorted(every))
    file.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    searched.cache_clear()


def best_settings(contestant: str, case: str) -> Mapping[str, str]:
    """The best settings of a contestant in a case; none where nothing was searched."""
    found = searched().get((contestant, case))
    return found.settings if found else _NONE


def searched_table(found: Iterable[Searched]) -> str:
    """The table of a page.

    >>> print(searched_table([Searched("DuckDB", "tables", {"threads": "4"}, 2.0, 1.5, 5)]))
    | contestant | case | best settings | total with the defaults | total with these | tried |
    |---|---|---|---|---|---|
    | DuckDB | tables | threads: 4 | 2.0 s | 1.5 s | 5 |
    """
    rows = [
        (
            each.contestant,
            each.case,
            ", ".join(f"{name}: {value}" for name, value in each.settings.items()) or "the defaults",
            *("" if seconds is None else f"{seconds:.1f} s" for seconds in (each.default_seconds, each.seconds)),
            str(each.tried),
        )
        for each in found
    ]
    head, *lines = (f"| {' | '.join(row)} |" for row in (_COLUMNS, *rows))
    return "\n".join([head, f"|{'---|' * len(_COLUMNS)}", *lines])
