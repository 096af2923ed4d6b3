"""The largest column sums of a table, by peeling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.data.cells import read_floats, untyped
from discreet.data.frames import has_column_names
from discreet.data.memory import in_memory
from discreet.data.unprotected import UnprotectedArray, is_unprotected
from discreet.errors import InvalidInput
from discreet.estimators.privacy import bits_for, opened
from discreet.estimators.quantile import protected
from discreet.ledger import Ledger
from discreet.losses import Squared
from discreet.measurements import Noisy
from discreet.mechanisms import LaplacePeeling, Peeling
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.rows import RowSpec
from discreet.units import Adjacency, Unit
from discreet.vault import Vault

__all__ = ["largest_sums"]


def largest_sums(
    X: Any,
    s: int,
    *,
    epsilon: float,
    delta: float = 0.0,
    entry_bound: float,
    adjacency: Adjacency,
    ledger: Ledger | str | None = None,
    random_state: int | None = None,
) -> NDArray[np.float64]:
    """The ``s`` largest column sums of ``X`` in absolute value, with noise; every other column is 0.

    Places are chosen one after another by noisy maxima, then their values are released (peeling, Dwork, Su and Zhang
    2021). The cost grows with s and the logarithm of the number of columns, not with that number. With δ > 0 one-shot
    Gumbel choices and Gaussian values, with δ = 0 Laplace noise for both.

    Args:
        X: a dense or sparse matrix of numbers, one row a person.
        s: how many columns are named.
        epsilon: privacy budget of the whole answer; ``inf`` gives the sums without privacy.
        delta: 0 for pure privacy.
        entry_bound: public bound to which every |x_ij| is cut.
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`.
        ledger: a `Ledger` or its url; by default one in memory.
        random_state: an integer seed makes the answer reproducible and *not private*.

    Raises:
        InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
        BudgetExceeded: the ledger refused. Nothing was released.

    Example:
        >>> visits = np.zeros((2000, 50))
        >>> visits[:, 7] = 1.0
        >>> found = largest_sums(visits, 1, epsilon=1.0, entry_bound=1.0, adjacency="add-remove")
        >>> np.flatnonzero(found).tolist()
        [7]
    """
    matrix = _matrix(X)
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.number) or not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon!r}; use float('inf') for no privacy.")
    if not 0 <= delta < 1 or not 0 < entry_bound < math.inf:
        raise InvalidInput(f"delta must be in [0, 1) and entry_bound positive, got {delta!r} and {entry_bound!r}.")
    columns, unit = matrix.shape[1], Unit.of(adjacency)
    rows = RowSpec(columns, norm=float(entry_bound) * math.sqrt(columns))
    # at θ = 0 the slope of the squared loss is minus the target: targets of −1 make its gradient sum the sum of rows
    total = EntrywiseGradientSum(rows, Squared(), np.zeros(columns), float(entry_bound), 1.0)
    mechanism = _calibrated(total, s, float(epsilon), float(delta), unit)
    bits = bits_for(random_state)
    data = in_memory(matrix, -np.ones(matrix.shape[0]), rows)
    vault = Vault(data, unit, opened(ledger), bits, persons=None)
    answer = np.asarray(vault.release(Noisy(total, mechanism), note=f"the {s} largest column sums"))
    if not protected(float(epsilon), bits) or is_unprotected((epsilon, delta, entry_bound, s)):
        return answer.view(UnprotectedArray)
    return answer


def _calibrated(
    total: EntrywiseGradientSum, s: int, epsilon: float, delta: float, unit: Unit
) -> Peeling | LaplacePeeling:
    """Peeling with the least noise that is (ε, δ)-DP."""
    from discreet.accounting import calibrate

    def make(noise: float) -> Peeling | LaplacePeeling:
        return Peeling.balanced(s, noise) if delta > 0 else LaplacePeeling(s, noise)

    if math.isinf(epsilon):
        return LaplacePeeling(s, 0.0)
    make(1.0)  # refuses a number of places that is none, before anything is searched
    return make(calibrate(lambda noise: make(noise).event(total, unit), epsilon, delta, unit))


def _matrix(X: Any) -> Any:
    if has_column_names(X):
        raise InvalidInput("X must be a matrix of numbers, not a table: pass its values.")
    if sp.issparse(X):
        if X.dtype.kind not in "biuf":
            raise InvalidInput("X must be a matrix of numbers.")
        return X
    array = untyped(X)
    if array.ndim != 2 or array.dtype.kind in "USTMmVc":
        raise InvalidInput("X must be a matrix of numbers, one row a person.")
    return read_floats(array.ravel()).reshape(array.shape)
