"""`python -m pipelines` is the command `beam-joins`, in a checkout."""

import sys

from beam_joins.pipelines.command.programs import main

if __name__ == "__main__":
    sys.exit(main())
