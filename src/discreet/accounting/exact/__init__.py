"""Privacy losses and their sums, bounded from both sides.

`pairs`, `mixture` and `sampling` are the dominating pairs of single releases; `gaussian`, `contour` and `fourier` are
the accountants of their sums. Numbers only: no event is read here, except by `objective_perturbation`.
"""
