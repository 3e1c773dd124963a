"""``python -m pipelines.explain``: two small changelogs through a join, shown position by position."""

import logging
import sys

from beam_joins.pipelines.commands.explain.command import main

__all__ = ["main"]

if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said in one sentence
    sys.exit(main())
