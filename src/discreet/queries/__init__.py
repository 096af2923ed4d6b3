"""Queries: bounded contributions of rows. Each states its bound and enforces it in whole numbers, for every row.

- `base`: what a query promises; `mapped`: a query on rows that a public map makes; `parameters`: θ in whole steps;
- `sums`: sums over rows (counts, moments, gradients, scores of models, errors of predictions);
- `histograms`: counts of scores and of outcomes, and ranks of targets;
- `frank_wolfe`: scores of the vertices of a set;
- `minimiser`: the certified minimiser of a regularised sum of losses;
- `kernels`: the compiled loops of all of these, imported only when rows are read.
"""
