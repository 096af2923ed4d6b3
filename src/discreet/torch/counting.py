"""The private number of rows of a training under add-remove, where none is declared.

Claim. The count of rows (or of persons who are one example each) is released with Laplace noise, ε₁-DP, and the
training that follows is (ε − ε₁, δ)-DP whatever the count said, by the same composition as for every estimator
(`discreet.estimators.privacy`). One charge holds both: the count's event and a promise of the rest. Rates, steps and
the divisor of sums follow from the released number.

A training needs an upper bound on the number of rows, for the places of rows in physical batches
(`discreet.torch.batches`). It is the released number plus t = 1 + k + s·ln(1/(2β)) for noise of scale s and k rows a
unit: rounded Laplace noise is below −(t − k) with probability at most β. So with probability 1 − β over the noise the
bound holds for a dataset and its neighbour, and β is charged with the places' own part of δ. No bound on the number of
rows is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from discreet.calibration import Guarantee
from discreet.errors import InvalidInput
from discreet.estimators.privacy import SOME_ROWS, PrivateEstimator
from discreet.torch.plan import OVERFLOW_SHARE, Count, TrainingPlan
from discreet.vault import Payment, Vault

__all__ = ["plan_after_count"]


def plan_after_count(
    vault: Vault, aim: Guarantee, note: str, planned: Callable[[Guarantee, int, Count | None, Guarantee], TrainingPlan],
    check: Callable[[TrainingPlan], object],
) -> TrainingPlan:  # fmt: skip
    """Count the rows privately, and plan for the number that was released.

    Args:
        vault: holds the rows.
        aim: what count and training keep together.
        note: for the ledger's history.
        planned: the plan with a guarantee, for a number of rows, the count, and what noise is calibrated to.
        check: refuses what cannot be trained; it is called before rows are counted.

    Raises:
        InvalidInput: the declarations do not fit. It says whether the number of rows has been released.
    """
    nothing = Guarantee(math.inf, 0.0, aim.unit)
    check(planned(nothing, int(SOME_ROWS), None, nothing))
    measurement, promise, rest = PrivateEstimator._count(aim)
    released, _ = vault.release_first(measurement, promise, Payment(note, aim.stated))
    rows = max(2, round(float(released)))
    tail, scale, unit = OVERFLOW_SHARE * aim.delta, measurement.mechanism.noise_multiplier, aim.unit.rows_per_unit
    most = math.ceil(max(2.0, float(released)) + 1 + unit + scale * math.log(1 / (2 * tail)))
    count = Count(most, tail, aim.epsilon - rest.epsilon, scale)
    try:
        plan = planned(aim, rows, count, rest)
        check(plan)
    except InvalidInput as refusal:
        raise type(refusal)(
            f"{refusal} This was found after the number of rows had been released as about {rows}: it is charged, "
            "together with the promise of a training; nothing else was released. n_public=… avoids counting."
        ) from None
    return replace(plan, count=count)
