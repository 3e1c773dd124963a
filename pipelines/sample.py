"""``python -m pipelines.sample``: changelogs of a made-up shop in files."""

import sys

from beam_joins.pipelines.commands.sample.sample_files import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
