"""The types of named outputs, for annotations: ``stock: TableOutputs = log | TableFromChangelog(...).with_outputs()``."""

from beam_joins.transforms.engine.construction.output_types import (
    Handled,
    HandledStreamOutputs,
    HandledTableOutputs,
    HandledWindowedStreamOutputs,
    HandledWindowedTableOutputs,
    StreamOutputs,
    TableOutputs,
    WindowedStreamOutputs,
    WindowedTableOutputs,
)

__all__ = [
    "Handled",
    "HandledStreamOutputs",
    "HandledTableOutputs",
    "HandledWindowedStreamOutputs",
    "HandledWindowedTableOutputs",
    "StreamOutputs",
    "TableOutputs",
    "WindowedStreamOutputs",
    "WindowedTableOutputs",
]
