"""Changes as tools that capture them from databases write them: the row in an envelope that says what happened to it."""
