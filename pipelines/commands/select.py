"""``--select``: which columns of the inputs a row of the result has, and what they are called."""

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

from beam_joins.errors import InputError
from beam_joins.pipelines.formats.csv_schema import unquoted

ALL: Final = "*"
ROW: Final = ""
_NAME: Final = r'"(?:[^"]|"")+"|[^\s",.]+'
_ITEM: Final = re.compile(rf"\s*(?P<first>{_NAME})(?:\.(?P<column>{_NAME}))?(?:\s+as\s+(?P<name>{_NAME}))?\s*(?:,|$)")


class SelectItem(NamedTuple):
    """A column of a side, ``ALL`` of them, or the whole ``ROW`` as an object; ``name``: what it is called in
    the result, if otherwise.
    """

    side: int
    column: str
    name: str = ""


class Share(NamedTuple):
    """The part of a row of the result that the rows of a side give.

    ``columns`` and what they are called there, None: all that a row has. ``nested``: the row is an object of
    this name. ``allowed``: the columns that a row may have, where those of the first records stand for all.
    """

    columns: tuple[tuple[str, str], ...] | None = None
    nested: str = ""
    allowed: frozenset[str] | None = None


def items_selected(text: str, sides: Sequence[str]) -> tuple[SelectItem, ...]:
    """The items of ``--select``; with one side alone columns have no name of a side before them.

    Raises InputError.

    >>> items_selected('left.*, right."full name" as customer', ("left", "right"))
    (SelectItem(side=0, column='*', name=''), SelectItem(side=1, column='full name', name='customer'))
    >>> items_selected("id,name as n", ("",))
    (SelectItem(side=0, column='id', name=''), SelectItem(side=0, column='name', name='n'))
    """
    items, at = [], 0
    while at < len(text):
        match = _ITEM.match(text, at)
        first, column, name = (unquoted(each or "") for each in match.groups()) if match else ("", "", "")
        if len(sides) == 1 and match and not column:
            items.append(SelectItem(0, first, name))
        elif len(sides) > 1 and match and first in sides and (column or name):
            items.append(SelectItem(sides.index(first), column or ROW, name))
        else:
            item = text[at:].split(",", maxsplit=1)[0].strip()
            is_odd = '"' not in item and (" " in item or item.count(".") >= len(sides))
            quotes = "; a name with spaces, commas or points stands in double quotes" if is_odd else ""
            raise InputError(f"--select: {item!r} is none of {_forms(sides)}{quotes}")
        if items[-1].column == ALL and name:
            raise InputError(f"--select: all columns have no name together: leave 'as {name}' out")
        at = match.end() if match else len(text)
    return tuple(items)


def shares_of(
    select: str,
    sides: Sequence[str],
    columns: Sequence[Sequence[str]],
    lacking: Container[int],
    rename: str,
    earlier: Sequence[Mapping[str, str]] = (),
) -> dict[int, Share]:
    """The part of each side in a row of the result, by the side's number; none for a side that gives nothing.

    ``select`` is the text of the option, in which columns have no name of a side before them where there is one
    side alone. ``columns`` are those that the sides are known to have; ``lacking`` are the sides that a row of the result
    may be without. All columns of a side are taken as they come where no other name can be one of theirs.
    ``earlier`` are the names that columns taken with ``*`` had in earlier runs, by their own names: they keep these.
    Raises InputError for two columns of one name.

    >>> shares_of("left.*, right.*", ("left", "right"), (["id", "by"], ["id"]), (), "")[0].columns
    (('id', 'left_id'), ('by', 'by'))
    >>> shares_of("left.*, right.*", ("left", "right"), (["by"], ["id", "by"]), (), "", [{"by": "by"}, {"id": "id"}])[1].columns
    (('id', 'id'), ('by', 'right_by'))
    """
    items = items_selected(select, sides)
    shares: dict[int, Share] = {}
    taken: dict[int, list[tuple[str, str, bool]]] = {}
    for side in sorted({item.side for item in items}):
        of_side, others = ([item for item in items if (item.side == side) is mine] for mine in (True, False))
        if any(item.column == ROW for item in of_side):
            if len(of_side) > 1:
                raise InputError(f"--select has the {sides[side]} row as an object and columns of it: choose one")
            shares[side] = Share(nested=of_side[0].name)
        elif [item.column for item in of_side] == [ALL] and side not in lacking and all(item.column == ROW for item in others):
            shares[side] = Share()
        else:
            taken[side] = [
                (name, item.name or name, item.column == ALL)
                for item in of_side
                for name in (columns[side] if item.column == ALL else [item.column])
            ]
    known = [earlier[side] if side < len(earlier) else {} for side in range(len(sides))]
    counts = Counter(
        known[side].get(column, name) if of_all else name for side, each in taken.items() for column, name, of_all in each
    )
    counts.update(share.nested for share in shares.values() if share.nested)

    def name_of(side: int, column: str, name: str, of_all: bool) -> str:
        if not of_all:
            return name
        return known[side].get(column, f"{sides[side]}_{name}" if counts[name] > 1 else name)

    for side, each in taken.items():
        named = tuple((column, name_of(side, column, name, of_all)) for column, name, of_all in each)
        allowed = frozenset(columns[side]) if any(of_all for _, _, of_all in each) else None
        shares[side] = Share(named, allowed=allowed)
    names = [name for share in shares.values() for name in (share.nested, *(name for _, name in share.columns or ())) if name]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"the result would have two columns '{twice[0]}': {rename}")
    return dict(sorted(shares.items()))


def _forms(sides: Sequence[str]) -> str:
    if len(sides) == 1:
        return "COLUMN, COLUMN as NAME, *"
    return ", ".join(f"{side}.COLUMN, {side}.COLUMN as NAME, {side}.*, {side} as NAME" for side in sides)
