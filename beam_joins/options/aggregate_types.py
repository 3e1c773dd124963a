"""The aggregates of groups, and what becomes of groups without rows and of null groups."""

from typing import Literal

AggregateName = Literal["count", "sum", "min", "max", "mean", "count_distinct"]
"""All aggregates."""
Kept = Literal["drop", "keep"]
"""What becomes of groups without rows, and of rows whose group is null."""
