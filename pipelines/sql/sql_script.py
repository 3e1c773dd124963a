"""The statements of a SQL file: ``CREATE TABLE`` with a source, and ``CREATE [MATERIALIZED] VIEW`` with a target."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import Token, TokenType, tokenize
from sqlglot.errors import SqlglotError

from beam_joins.errors import InputError

_FORMS: Final = (
    "write CREATE TABLE name (column type, ...) WITH (source = '...'), "
    "or CREATE MATERIALIZED VIEW name WITH (target = '...') AS SELECT ..."
)
_CONSTRAINTS: Final = {TokenType.PRIMARY_KEY, TokenType.NOT, TokenType.NULL}
_OPENS: Final = {TokenType.L_PAREN, TokenType.L_BRACKET}
_CLOSES: Final = {TokenType.R_PAREN, TokenType.R_BRACKET}


@dataclass(frozen=True)
class DeclaredColumn:
    """A column of a table: its name, and its type as it is written."""

    name: str
    type: str
    is_nullable: bool


@dataclass(frozen=True)
class DeclaredTable:
    """A table that is read. Without columns it has those of its source."""

    name: str
    line: int
    columns: tuple[DeclaredColumn, ...] = ()
    key: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DeclaredView:
    """A view that is kept; without a ``target`` among its options only others read it."""

    name: str
    line: int
    query: str
    options: dict[str, Any] = field(default_factory=dict)


Statement = DeclaredTable | DeclaredView


def statements_of(text: str) -> list[Statement]:
    """The statements of a file, in their order. Raises InputError with the line.

    >>> table, view = statements_of('''
    ... CREATE TABLE shops (id BIGINT PRIMARY KEY, city VARCHAR) WITH (source = 'shops.jsonl');
    ... CREATE VIEW cities AS SELECT DISTINCT city FROM shops;
    ... ''')
    >>> table.key, [column.type for column in table.columns], table.options
    (('id',), ['BIGINT', 'VARCHAR'], {'source': 'shops.jsonl'})
    >>> view.query
    'SELECT DISTINCT city FROM shops'
    """
    try:
        tokens = tokenize(text, read="postgres")
    except SqlglotError as error:
        raise InputError(f"the file is no SQL: {str(error).partition(chr(10))[0]}") from None
    made = list[Statement]()
    begin = 0
    for n, token in enumerate([*tokens, None]):
        if token is None or token.token_type == TokenType.SEMICOLON:
            if part := tokens[begin:n]:
                made.append(_Reader(part, text).statement())
            begin = n + 1
    seen = set[str]()
    for each in made:
        if each.name in seen:
            raise InputError(f"line {each.line}: there are two relations {each.name!r}")
        seen.add(each.name)
    return made


class _Reader:
    """Reads the tokens of a statement."""

    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        self._tokens, self._text, self._at, self.line = tokens, text, 0, tokens[0].line

    def statement(self) -> Statement:
        """The statement."""
        self._expect("CREATE")
        if self._takes("TABLE"):
            return self._table()
        self._takes("MATERIALIZED")
        self._expect("VIEW")
        name, options = self._name(), self._options()
        self._expect("AS")
        if self._at == len(self._tokens):
            raise self._error("the query is missing")
        query = self._text[self._tokens[self._at].start : self._tokens[-1].end + 1]
        return DeclaredView(name, self.line, query, options)

    def _table(self) -> DeclaredTable:
        name = self._name()
        columns, key = list[DeclaredColumn](), list[str]()
        for part in self._parts() if self._is(TokenType.L_PAREN) else ():
            column = _identifier(part[0])
            if part[0].token_type == TokenType.PRIMARY_KEY:
                key += [_identifier(token) for token in part[2:-1] if token.token_type != TokenType.COMMA]
                continue
            constraints = [token.token_type for token in part if token.token_type in _CONSTRAINTS]
            kind = part[1 : len(part) - len(constraints)]
            if not kind or any(token.token_type in _CONSTRAINTS for token in kind):
                raise self._error(f"{column}: write a type, and NOT NULL or PRIMARY KEY behind it")
            key += [column] * (TokenType.PRIMARY_KEY in constraints)
            columns.append(DeclaredColumn(column, self._text[kind[0].start : kind[-1].end + 1], not constraints))
        options = self._options()
        if self._at < len(self._tokens):
            raise self._error(f"{self._tokens[self._at].text!r} is not expected: {_FORMS}")
        return DeclaredTable(name, self.line, tuple(columns), tuple(key), options)

    def _options(self) -> dict[str, Any]:
        """The options of ``WITH (name = value, ...)``."""
        made = dict[str, Any]()
        if not self._takes("WITH"):
            return made
        for part in self._parts():
            if len(part) < 3 or part[1].token_type != TokenType.EQ:
                raise self._error("write options as name = 'value'")
            made[part[0].text.lower()] = self._value(part[0].text, part[2:])
        return made

    def _value(self, name: str, tokens: Sequence[Token]) -> Any:
        first = tokens[0]
        if len(tokens) == 1 and first.token_type == TokenType.STRING:
            return first.text
        if len(tokens) == 1 and first.token_type == TokenType.NUMBER:
            return float(first.text) if "." in first.text else int(first.text)
        if len(tokens) == 1 and first.text.upper() in ("TRUE", "FALSE"):
            return first.text.upper() == "TRUE"
        raise self._error(f"{name}: write a text in single quotes, a number, TRUE or FALSE")

    def _parts(self) -> Iterator[Sequence[Token]]:
        """The parts between commas of the parentheses that begin here."""
        if not self._is(TokenType.L_PAREN):
            raise self._error(_FORMS)
        self._at += 1
        depth, begin = 0, self._at
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if depth == 0 and token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
                if begin == self._at - 1:
                    raise self._error("a column or an option is missing")
                yield self._tokens[begin : self._at - 1]
                begin = self._at
                if token.token_type == TokenType.R_PAREN:
                    return
            depth += (token.token_type in _OPENS) - (token.token_type in _CLOSES)
        raise self._error("a parenthesis is not closed")

    def _name(self) -> str:
        if self._at == len(self._tokens) or not self._tokens[self._at].text:
            raise self._error(_FORMS)
        self._at += 1
        return _identifier(self._tokens[self._at - 1])

    def _is(self, kind: TokenType) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].token_type == kind

    def _takes(self, word: str) -> bool:
        is_next = self._at < len(self._tokens) and self._tokens[self._at].text.upper() == word
        self._at += is_next
        return is_next

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            raise self._error(_FORMS)

    def _error(self, said: str) -> InputError:
        return InputError(f"line {self.line}: {said}")


def _identifier(token: Token) -> str:
    """A name, in small letters if it has no quotes."""
    return token.text if token.token_type == TokenType.IDENTIFIER else token.text.lower()
