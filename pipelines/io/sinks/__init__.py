"""Parts of the writers of databases."""
