"""Blocks of rows, in which records travel between the stages, their files, and the counts and notes that go with them."""
