"""Values in Arrow columns: conversions that change none, and the types that columns have in common."""
