"""How a program was called, so that its messages and its help name a command that the reader can type again."""

import os
import sys

INSTALLED = "beam-joins"


def program(name: str) -> str:
    """The command that runs `name`, as it was called: `beam-joins orders`, `python -m beam_joins orders`,
    `python -m pipelines.orders`.

    Where the process runs something else, a test for one, it is the module in a checkout.

    >>> program("orders")
    'python -m pipelines.orders'
    """
    if os.path.basename(sys.argv[0]) in (INSTALLED, f"{INSTALLED}.exe"):
        return f"{INSTALLED} {name}"
    module = f"pipelines.{name}"
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    called = str(spec.name) if spec else ""
    if called in (module, f"beam_joins.{module}"):
        return f"python -m {called}"
    if called in ("pipelines.__main__", "beam_joins.__main__", "beam_joins.pipelines.__main__"):
        return f"python -m {called.removesuffix('.__main__')} {name}"
    return f"python -m {module}"
