"""Keys: which of them are equal, in Python and in Arrow columns of any type, and the hashes by which they find their partition."""
