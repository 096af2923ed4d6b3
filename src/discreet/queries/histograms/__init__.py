"""Counts of rows by score and by outcome, and how far positions are from a quantile of the targets."""
