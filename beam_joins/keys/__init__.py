"""Keys: their equality in Python and in Arrow columns of any type, and the hashes that route them to
partitions.
"""
