"""The room of data."""
