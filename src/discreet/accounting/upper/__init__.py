"""Upper bounds of ε and δ from classical theorems and Rényi divergences. They need no numerical integration of losses.

`stated` is what single leaves guarantee, `renyi` the divergences of every event (with `subsampled`, `moments` and
`selection` for samples and for the best of several runs), `zcdp` and `classical` the closed forms.
"""

from __future__ import annotations

from discreet.accounting.upper import selection as _selection  # noqa: F401 - registers its divergence
