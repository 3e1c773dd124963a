"""``beam-joins slot``: the slot of a PostgreSQL database that tables are read from, and its publication."""

import sys

from beam_joins.pipelines.commands.slot_command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
