"""The commands: their options, pipelines, incremental runs, messages and the summary."""
