"""Addresses of a PostgreSQL slot, ``postgres://HOST/DATABASE?slot=NAME``, as the commands take them."""

from typing import Final, NamedTuple
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from beam_joins.errors import InputError

_SCHEMES: Final = ("postgres://", "postgresql://")
_OWN: Final = ("slot", "publication", "table")


class PostgresAddress(NamedTuple):
    """``conninfo`` is the address without what is not for libpq; ``shown`` has no password."""

    conninfo: str
    slot: str
    publication: str
    table: str
    shown: str


def postgres_table(address: str) -> PostgresAddress:
    """The parts of the address of a table. Raises InputError for an address without a table."""
    target = postgres_address(address)
    if target.slot:
        raise InputError("a slot is for inputs: leave it out of the address")
    if not target.table:
        raise InputError("name a table in the address: postgres://HOST/DATABASE?table=NAME")
    return target


def postgres_address(address: str) -> PostgresAddress:
    """The parts of an address. The options of libpq in it, such as ``sslmode``, stay.

    Raises InputError for a text that is no address, or says ``slot`` twice.

    >>> postgres_address("postgres://me:secret@db/shop?slot=s&sslmode=require")  # doctest: +NORMALIZE_WHITESPACE
    PostgresAddress(conninfo='postgres://me:secret@db/shop?sslmode=require', slot='s', publication='s', table='',
        shown='postgres://me@db/shop')
    """
    if not address.startswith(_SCHEMES):
        raise InputError("the address of a slot is of the form postgres://HOST/DATABASE?slot=NAME")
    try:
        parts = urlsplit(address)
    except ValueError:
        raise InputError(
            "the address of the database cannot be read: write / ? # @ : of names and passwords as %2F and so on"
        ) from None
    named: dict[str, str] = {}
    others = []
    for each in filter(None, parts.query.split("&")):
        name, _, value = each.partition("=")
        if name not in _OWN:
            others.append(each)
        elif name in named:
            raise InputError(f"the address of the database says {name} twice")
        else:
            named[name] = unquote_plus(value)
    user, at, host = parts.netloc.rpartition("@")
    shown = f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}"
    slot = named.get("slot", "")
    conninfo = urlunsplit(parts._replace(query="&".join(others)))
    if not parts.netloc:  # urlunsplit leaves out the slashes of an empty host
        conninfo = f"{parts.scheme}://{conninfo.partition(':')[2].removeprefix('//')}"
    return PostgresAddress(conninfo, slot, named.get("publication", slot), named.get("table", ""), shown)
