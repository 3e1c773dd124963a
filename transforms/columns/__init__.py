"""What the operators mean, computed for all rows of a partition at once, on Arrow columns and NumPy arrays; no pipelines here.

A row's **version** lives from its position to the next position of its key, and every join of tables is one temporal overlap: versions that
look each other up are matched, and the result changes where an overlap begins or ends. The cores in :mod:`beam_joins` say the same record by
record; tests hold one against the other.
"""
