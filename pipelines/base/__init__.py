"""What all packages of ``pipelines`` use: one-sentence errors, paths, progress, interruptions.

It imports nothing of theirs.
"""
