"""SQL queries as relations: planned by DataFusion, whose expressions it evaluates too."""
