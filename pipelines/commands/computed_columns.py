"""``--where``, and expressions in ``--select``: SQL over the columns of the inputs."""

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.commands.select import ALL, ROW, SelectItem, items_selected
from beam_joins.pipelines.formats.csv_schema import quoted, unquoted

ROWS: Final = "rows"
"""The name of the rows in the query."""
_IS_EXPRESSION: Final = re.compile(r"""[^\w\s.,*"]|[\w")]\s*\*\s*[\w"(]""")
_IN_QUOTES: Final = re.compile(r'"(?:[^"]|"")*"')
_NAMED: Final = re.compile(r"""(?P<text>.+)\s+as\s+(?P<name>"(?:[^"]|"")+"|[A-Za-z_]\w*)""", re.IGNORECASE | re.DOTALL)


def add_where(group: Any) -> None:
    """Add ``--where`` to the options of a command."""
    group.add_argument(
        "--where",
        metavar="CONDITION",
        help="the rows of the result, those for which a condition in SQL is true: \"amount > 100 and city <> 'Oslo'\" (extra sql)",
    )


class ComputedColumns(NamedTuple):
    """The columns of the result, and the condition of its rows. An item is a column of an input, or the name and the text of an
    expression; columns of two ``sides`` have their names before them.
    """

    items: tuple[SelectItem | tuple[str, str], ...]
    where: str
    sides: tuple[str, ...]
    is_of_left: bool
    """Whether a row has columns of the left side alone."""

    @classmethod
    def of(cls, args: Namespace, select: str, sides: Sequence[str]) -> Self | None:
        """The columns that the options name, ``None`` where these are columns of inputs, and no condition. Raises InputError."""
        where, is_of_left = vars(args).get("where") or "", vars(args).get("how") in ("semi", "anti")
        items: list[SelectItem | tuple[str, str]]
        try:
            items = [*_columns_named(select, sides)]
            if not where:
                return None
        except InputError:
            if _IS_EXPRESSION.search(select) is None:
                raise
            items = [*_items(select, sides)]
        if is_of_left and any(isinstance(each, SelectItem) and each.side for each in items):
            raise InputError(f"--how {args.how} gives left rows alone: leave the columns of the right side out of --select")
        return cls(tuple(items), where, tuple(sides), is_of_left)

    @property
    def select(self) -> str:
        """The columns that rows have before, as ``--select`` names them: all of an only input, or the rows of both sides."""
        if len(self.sides) == 1:
            return ALL
        return ", ".join(f"{side} as {side}" for side in (self.sides[:1] if self.is_of_left else self.sides))

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions by their names, and the condition by an empty one."""
        return dict(each for each in self.items if not isinstance(each, SelectItem)) | ({"": self.where} if self.where else {})

    def columns(self, rows: Sequence[Sequence[str]]) -> dict[str, str]:
        """The columns of the result by their names, of inputs with the columns ``rows``: a column of these, or the name of an
        expression. Raises InputError for two of one name.
        """
        made = dict[str, str]()
        twice = Counter(name for of_side in rows for name in of_side)
        for each in self.items:
            for name, column in self._columns(each, rows, twice) if isinstance(each, SelectItem) else [(each[0], each[0])]:
                if name in made:
                    raise InputError(f"--select: two columns are called '{name}': give them different names")
                made[name] = column
        return made

    def _columns(self, item: SelectItem, rows: Sequence[Sequence[str]], twice: Counter[str]) -> Iterator[tuple[str, str]]:
        side = self.sides[item.side]
        if item.column == ROW:
            yield item.name, side
        elif item.column != ALL:
            yield item.name or item.column, self.column(item.side, item.column)
        else:
            for name in rows[item.side]:
                yield f"{side}_{name}" if twice[name] > 1 else name, self.column(item.side, name)

    def names(self, side: int, columns: Sequence[str]) -> list[str]:
        """The names in the result of columns of a side; of one that it has not, the column's."""
        items = [each for each in self.items if isinstance(each, SelectItem) and each.side == side]
        named = {each.column: each.name or each.column for each in reversed(items)}
        return [named.get(name, name) for name in columns]

    def column(self, side: int, name: str) -> str:
        """The name of a column of a side among those of all."""
        return name if len(self.sides) == 1 else f"{self.sides[side]}.{name}"

    def query(self, columns: Sequence[str]) -> str:
        """The query of the expressions, with their numbers as names, over rows with these columns. Raises InputError."""
        made = [f'{_with_names(text, self.sides, columns)} AS "{n}"' for n, text in enumerate(self.expressions.values())]
        return f"SELECT {', '.join(made)} FROM {ROWS}"


def _columns_named(select: str, sides: Sequence[str]) -> Sequence[SelectItem]:
    """The columns of a list without a call of a function. Raises InputError."""
    if "(" in _IN_QUOTES.sub("", select):
        raise InputError("--select: a name with brackets stands in double quotes")
    return items_selected(select, sides)


def _items(select: str, sides: Sequence[str]) -> Iterator[SelectItem | tuple[str, str]]:
    """The items of a list of columns and expressions. Raises InputError."""
    for item in _split(select):
        try:
            yield from _columns_named(item, sides)
        except InputError:
            if (named := _NAMED.fullmatch(item)) is None:
                if not _IS_EXPRESSION.search(item):
                    raise
                raise InputError(f"--select: give the expression {item} a name: {item} as NAME") from None
            yield unquoted(named["name"]), named["text"]


def _split(listed: str) -> Iterator[str]:
    """The parts of SQL between commas that are in no brackets. Raises InputError."""
    depth, begin = 0, 0
    for token in _tokens("--select", listed):
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if token.text == "," and not depth:
            yield listed[begin : token.start].strip()
            begin = token.end + 1
    yield listed[begin:].strip()


def _with_names(text: str, sides: Sequence[str], columns: Sequence[str]) -> str:
    """SQL in which the names of columns are those of rows: SQL has them in small letters, and words such as LEFT."""
    made, begin, tokens = "", 0, _tokens("--where", text)
    for n, token in enumerate(tokens):
        is_field = n > 0 and tokens[n - 1].text == "."
        is_side = len(sides) > 1 and token.text.lower() in sides and not is_field
        if is_side and n + 2 < len(tokens) and tokens[n + 1].text == ".":
            made += text[begin : token.start] + quoted(f"{token.text.lower()}.{tokens[n + 2].text}")
            begin = tokens[n + 2].end + 1
        elif token.token_type.name == "VAR" and token.text in columns and not is_field and token.start >= begin:
            made += text[begin : token.start] + quoted(token.text)
            begin = token.end + 1
    return made + text[begin:]


def _tokens(option: str, text: str) -> list[Any]:
    with needs("sql"):
        from sqlglot import tokenize  # noqa: PLC0415  # an extra
        from sqlglot.errors import SqlglotError  # noqa: PLC0415
    try:
        return list(tokenize(text, read="postgres"))
    except SqlglotError as error:
        raise InputError(f"{option}: {text} is no SQL: {str(error).partition(chr(10))[0]}") from None
