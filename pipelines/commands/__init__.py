"""The commands: their options, pipelines, runs that go on, messages and the summary."""
