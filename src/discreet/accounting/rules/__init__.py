"""How each event is accounted: the registry that turns one leaf into what composition can use.

A rule is one of

- `Mu`: exactly a Gaussian of that μ; all of them add up to √(Σ μ²);
- `Pairs`: a dominating pair for each direction, "remove" (the unit's rows are in P's dataset) and "add" (in Q's);
- `Rho`: any ρ-zCDP release; all of them add up to Σ ρ;
- `Unbounded`: no protection.

Another room adds its event with ``@rule.register`` and returns one of these; `from_profile` makes a rule of nothing
but a bound on δ(ε).

Example:
    >>> from discreet.events import Gaussian
    >>> from discreet.units import Unit
    >>> rule(Gaussian(4.0), Unit("replace-one"))
    Mu(mu=0.5)
"""

from __future__ import annotations

from discreet.accounting.rules import leaves as _leaves  # noqa: F401 - registers its rules
from discreet.accounting.rules import objective_perturbation as _objective_perturbation  # noqa: F401 - registers its rule
from discreet.accounting.rules import sampling as _sampling  # noqa: F401 - registers its rules
from discreet.accounting.rules import stated as _stated  # noqa: F401 - registers its rules
from discreet.accounting.rules.base import Mu, Pairs, Rho, Rule, Unbounded, from_profile, profile_of, rule, zcdp_pair

__all__ = ["Mu", "Pairs", "Rho", "Rule", "Unbounded", "from_profile", "profile_of", "rule", "zcdp_pair"]
