"""The DuckDB record of every retrieval, its candidates and its feedback."""
