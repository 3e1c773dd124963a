"""``--json``: writes the summary of a run for programs, as one line of JSON."""

import os
from typing import Final

import orjson

from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.commands.summary import Summary

STDOUT: Final = "-"


def write_json(summary: Summary, path: str, *, append: bool = False) -> None:
    """Write it to a file, which is replaced at once or to which it is appended, or to the standard output.

    Raises OutputError.
    """
    line = orjson.dumps(summary.data(), option=orjson.OPT_APPEND_NEWLINE)
    if path == STDOUT:
        print(line.decode(), end="", flush=True)
        return
    target = path if append else f"{path}.{os.getpid()}"
    with writing(path):
        with open(target, "ab" if append else "wb") as file:
            file.write(line)
        if not append:
            os.replace(target, path)
