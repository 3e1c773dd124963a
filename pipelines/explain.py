"""``beam-joins explain``: two small changelogs through a join, shown position by position, or the plans of a SQL file."""

import logging
import sys
from collections.abc import Sequence

from beam_joins.pipelines import run
from beam_joins.pipelines.commands.explain import command

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid option or input, 1 if the run failed for another reason."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run.main([*arguments, "--explain"]) if arguments[:1] and arguments[0].endswith(".sql") else command.main(arguments)


if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said in one sentence
    sys.exit(main())
