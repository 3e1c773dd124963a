"""The readers and writers, the commands that people run, and the runners that these start."""
