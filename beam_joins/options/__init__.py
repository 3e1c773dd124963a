"""The words that options take: kinds of joins, operations of records, spans of time."""
