"""The functions of aggregates, as ``AggregateTable``, YAML and the commands name them."""

from typing import Literal

Function = Literal["count", "sum", "min", "max", "mean", "count_distinct"]
"""All functions."""
