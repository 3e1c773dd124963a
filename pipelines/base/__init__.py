"""The modules that all packages of ``pipelines`` share: one-sentence errors, paths, progress, interruptions.

It imports nothing of theirs.
"""
