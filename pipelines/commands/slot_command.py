"""``beam-joins slot``: a slot of PostgreSQL and its publication made, shown and dropped."""

import sys
from collections.abc import Sequence
from typing import Final

from beam_joins.errors import InputError, Unavailable
from beam_joins.pipelines.commands.program import Parser, program
from beam_joins.pipelines.systems.postgres.postgres_address import postgres_address

PROGRAM: Final = program("slot")
_EPILOG: Final = f"""\
examples:
  {PROGRAM} create 'postgres://host/shop?slot=enrich' --tables public.orders,public.customers
      the server keeps the changes of the two tables from now on

  {PROGRAM} show 'postgres://host/shop?slot=enrich'
      how far the slot is behind the server

  {PROGRAM} drop 'postgres://host/shop?slot=enrich'
      nothing is kept any more

The publication has the slot's name, unless the address has publication=NAME. The role needs REPLICATION; a role that makes a \
publication owns its tables and has CREATE on the database. The password comes from PGPASSWORD or ~/.pgpass.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid option or input, 1 if the server does not answer."""
    args = _parser().parse_args(argv)
    try:
        address = postgres_address(args.address)
        if not address.slot:
            raise InputError("name the slot in the address: postgres://HOST/DATABASE?slot=NAME")
        tables = list(filter(None, map(str.strip, (args.tables or "").split(","))))
        if tables and args.do != "create":
            raise InputError("--tables is for create: leave it out")
        from beam_joins.pipelines.systems.postgres.slot_setup import create_slot, drop_slot, shown_slot
        from beam_joins.pipelines.systems.postgres.table_snapshots import Slot

        slot = Slot(address.conninfo, address.slot, address.publication)
        if args.do == "show":
            print("\n".join(shown_slot(slot)))
        else:
            print(create_slot(slot, tables) if args.do == "create" else drop_slot(slot))
    except InputError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1 if isinstance(error, Unavailable) else 2
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog=PROGRAM,
        description="The replication slot of a PostgreSQL database that join and table read from, and its publication.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "do",
        choices=("create", "show", "drop"),
        metavar="{create,show,drop}",
        help="create the slot and its publication, show how far it is behind, or drop both",
    )
    parser.add_argument("address", metavar="ADDRESS", help="postgres://HOST/DATABASE?slot=NAME, with any options of libpq")
    parser.add_argument("--tables", metavar="TABLES", help="with create: the tables of a new publication")
    return parser
