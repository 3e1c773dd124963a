"""Jobs that a person runs, and what they need to run on Spark."""
