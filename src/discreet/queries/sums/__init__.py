"""Sums over rows: each row contributes a vector of whole numbers whose norm is bounded."""
