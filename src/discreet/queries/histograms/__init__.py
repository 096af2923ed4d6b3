"""Counts of rows by score, and how far positions are from a quantile of the targets."""
