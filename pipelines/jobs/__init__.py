"""What the commands that make tables of changelogs have in common: their options, the pipeline, runs that go on."""
