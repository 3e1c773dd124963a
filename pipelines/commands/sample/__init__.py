"""A made-up shop whose changes behave like real ones."""
