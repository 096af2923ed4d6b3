"""The minimiser of a ridge-regularised sum of losses, found on the trusted side and certified in exact arithmetic.

`problem` states the objective and its bounds; `held_rows` holds the rows for many passes; `objective` computes
gradients with error bounds; `newton` minimises without constraints, `constrained` over a convex set, and
`extended_precision` in decimal arithmetic where float64 certifies nothing; `ridge_minimiser` is the query.
"""
