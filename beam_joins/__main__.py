"""`python -m beam_joins` is the command `beam-joins`."""

import runpy

runpy.run_module("beam_joins.pipelines", run_name="__main__")
