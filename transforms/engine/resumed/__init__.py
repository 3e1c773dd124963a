"""Runs that go on: the folder of a state, its manifest and files, and the turn of a partition that remembers."""
