"""Rows in memory, dense or sparse, and how tables become rows: schemas, cells, encodings."""
