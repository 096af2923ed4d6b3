"""Rows in the memory of a GPU: the dataset, and sums of them in the same integers as in host memory."""
