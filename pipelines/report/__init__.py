"""A page about a run: what was counted in the workers, drawn for people."""
