"""Expressions of columns: those of Arrow, and those that another engine evaluates."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc


class EngineExpression(ABC):
    """An expression of columns that another engine than Arrow evaluates. ``str`` is all of its meaning."""

    @property
    @abstractmethod
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """The columns that it reads, each once: ``("n",)`` of rows, ``("left", "n")`` of pairs; or fields of structs in them."""

    @classmethod
    @abstractmethod
    def evaluated(cls, expressions: Mapping[str, Self], rows: pa.Table) -> dict[str, pa.Array]:
        """The columns that expressions give of rows. Raises ``ValueError``, a sentence."""


Expression: TypeAlias = pc.Expression | EngineExpression
"""An expression of columns."""
EXPRESSIONS: Final = (pc.Expression, EngineExpression)
"""Their classes."""
