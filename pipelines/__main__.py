"""`python -m pipelines` is the command `beam-joins`, in a checkout."""

import sys

from beam_joins.pipelines.commands.programs import main

if __name__ == "__main__":
    sys.exit(main())
