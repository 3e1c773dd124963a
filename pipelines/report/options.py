"""The option for a report, without Beam."""

import argparse
import os
from importlib.util import find_spec

from beam_joins.pipelines.command.input_error import InputError


def add_report_option(group: argparse._ArgumentGroup) -> None:
    """Add it to the results of a command line."""
    group.add_argument(
        "--report",
        metavar="PATH",
        help="a page about the run, PATH.html: speed, changes over time, the customers that cause most work, samples of what was dropped or late. It counts in "
        "the workers, and needs Plotly: pip install 'beam-joins[report]'",
    )


def check_report(path: str) -> None:
    """Raise InputError if no report can be written to a path."""
    if not path.endswith(".html"):
        raise InputError(f"--report: {path} must end in .html")
    if os.path.isdir(path) or not os.access(os.path.dirname(path) or os.curdir, os.W_OK):
        raise InputError(f"--report: {path} cannot be written: name a file in a directory that is there")
    if find_spec("plotly") is None:
        raise InputError("--report draws with Plotly, which is not installed: pip install 'beam-joins[report]'")
