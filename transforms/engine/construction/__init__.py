"""The construction of a pipeline: element types, tables, options, checks of inputs, and changes since the last run."""
