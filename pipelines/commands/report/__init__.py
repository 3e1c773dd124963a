"""The report: one HTML page about a run, drawn from the figures of its summary."""
