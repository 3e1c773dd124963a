"""What the operators mean, in plain Python: one record at a time, and recomputed from scratch.

Only tests import it; see README.md.
"""
