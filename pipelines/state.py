"""``beam-joins state``: the state of incremental runs, shown, verified and copied."""

import sys

from beam_joins.pipelines.commands.state_command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
