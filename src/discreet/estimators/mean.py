"""Private means of dense or sparse rows."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.calibration import Guarantee
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.estimators.checks import check_lengths
from discreet.estimators.features import checked_matrix
from discreet.estimators.persons import persons_of, refuse_weights
from discreet.estimators.privacy import PlanFor, PrivateEstimator
from discreet.losses import Squared
from discreet.planning.plan import Plan, make_plan
from discreet.recipes.sparse_mean import METHODS
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

__all__ = ["MeanEstimator"]


@dataclass(eq=False, repr=False)
class MeanEstimator(PrivateEstimator):
    """The mean of rows of length ≤ ``row_norm`` with at most ``sparsity`` non-zero entries each.

    ========================  ===============================================  ==================================
    ``method``                release                                          root mean square error
    ========================  ===============================================  ==================================
    ``"gaussian"``            sum + Gaussian noise σ                           σ√d
    ``"laplace"``             sum + Laplace noise b ∝ √s, pure ε-DP            b√(2d)
    ``"projection"``          the better of both, then projection on           ≤ √(L√s·σ·√(2 ln 2d)), and never more
                              ‖·‖₁ ≤ L√s and ‖·‖₂ ≤ L                          than the lines above
    ``"threshold"``           the same noise, soft thresholding at the level   adapts to the mean's own sparsity
                              that the noisy mean shows best, projection
    ``"l1-recovery"``         a sketch's sum + Gaussian noise, ℓ1 recovery     of the same order, from few numbers;
                              (the identity where a sketch saves nothing)      ``"threshold"`` for the identity
    ``"auto"``                ``"threshold"``, its noise chosen from           the least of the above
                              n, d, s, ε, δ alone
    ========================  ===============================================  ==================================

    Args:
        epsilon: privacy budget; ``float("inf")`` is the mean without privacy.
        delta: probability of failure; 0 asks for pure DP. By default 1/n² under replace-one or for ``n_public``.
        method: see above.
        row_norm: public ℓ2 length to which rows are clipped.
        sparsity: public number of entries that a row may have; of longer rows only the largest count. By default all.
        sketch_seed: public seed of the sketch.
        sparse_output: give ``mean_`` as a sparse row.
        adjacency: ``"replace-one"`` or ``"add-remove"``.
        rows_per_unit: the most rows that one person owns.
        n_public: the number of rows, declared public.
        ledger: a `Ledger` or its url; by default one in memory.
        random_state: an integer seed makes the run reproducible and *not private*.

    Ghazi, Guzmán, Kamath, Kumar and Manurangsi 2024, Section 3; Nikolov, Talwar and Zhang 2013 for the projection.

    Example:
        >>> import numpy as np, discreet as dp
        >>> X = np.eye(50)[np.arange(5000) % 5]
        >>> found = dp.MeanEstimator(epsilon=1.0, row_norm=1.0, sparsity=1).fit(X)
        >>> bool(np.linalg.norm(found.mean_ - X.mean(axis=0)) < 0.05), found.privacy_.epsilon <= 1.0
        (True, True)
    """

    _: KW_ONLY
    method: str = "auto"
    row_norm: float | None = None
    sparsity: int | None = None
    sketch_seed: int = 0
    sparse_output: bool = False

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, **refused: Any) -> MeanEstimator:
        """Estimate the mean; the release is charged to the ledger before it is made.

        Args:
            X: dense or sparse matrix, one row a person.
            y: ignored, for pipelines.
            groups: whose each row is. Persons are then protected, with ``rows_per_unit`` rows each, and the mean is one
                over persons.
            **refused: weights of rows, with the reason why they are refused.

        Raises:
            InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
            BudgetExceeded: the ledger refused. Nothing was released.
        """
        refuse_weights(refused)
        self._check_privacy()
        matrix = checked_matrix(self, X, reset=True)
        n, d = matrix.shape
        private = math.isfinite(self.epsilon)
        persons = persons_of(X, None, groups, Unit(self.adjacency, self.rows_per_unit), private)  # type: ignore[arg-type]
        rows, sparsity = self._declared(d, private)
        data = in_memory(matrix, np.zeros(n), rows)
        found = self._fit_in_vault(data, self._plan_for(rows, sparsity), self.method, persons)
        self.mean_ = sp.csr_array(found[None, :]) if self.sparse_output else found
        return self

    def _plan_for(self, rows: RowSpec, sparsity: int) -> PlanFor:
        """The plan for a number of rows and a guarantee, from public facts alone."""
        options = {"method": self.method, "sparsity": sparsity, "seed": int(self.sketch_seed)}

        def plan_for(n: float, guarantee: Guarantee) -> Plan:
            return make_plan(Problem(rows, Squared(), n), guarantee, "sparse_mean", options)

        return plan_for

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True  # a missing entry counts as 0: no exception depends on a row
        return tags

    def _declared(self, d: int, private: bool) -> tuple[RowSpec, int]:
        if self.method not in METHODS:
            raise InvalidInput(f"method must be one of {', '.join(METHODS)}; got {self.method!r}.")
        if self.sketch_seed != 0 and self.method != "l1-recovery":
            raise InvalidInput(f"sketch_seed belongs to method='l1-recovery'; method={self.method!r} has no sketch.")
        norm = self.row_norm
        if norm is None:
            if private:
                raise InvalidInput(
                    "a private mean needs row_norm, the public ℓ2 length to which each row is clipped. Bounds are "
                    "never taken from the data. Nothing was released."
                )
            norm = math.inf
        if not (isinstance(norm, int | float | np.number) and norm > 0):
            raise InvalidInput(f"row_norm must be a positive number, got {norm!r}.")
        check_lengths(norm)
        sparsity = d if self.sparsity is None else self.sparsity
        if isinstance(sparsity, bool) or not isinstance(sparsity, int | np.integer) or sparsity < 1:
            raise InvalidInput(f"sparsity must be a positive integer, got {sparsity!r}.")
        return RowSpec(d, float(norm)), min(int(sparsity), d)
