"""The room of queries."""
