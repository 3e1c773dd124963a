"""How it is measured: processes, comparison, rounds, figures, report."""
