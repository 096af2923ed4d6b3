"""Noise in the weights of a training with correlated noise (`bands=…`), beside independent noise. It uses no rows.

    python bench/torch_bands.py             # prints the table, and writes bench/results/torch_bands.json

For 10⁴ rows in batches of 100 under add-remove, δ = 1e-6: the root mean square, over the steps of a training, of the
noise in the sum of all steps so far, in clipping bounds. This is the noise in the weights of gradient descent, up to
its step size.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from discreet.calibration import Guarantee
from discreet.torch.banded import square_root_coefficients
from discreet.torch.plan import plan_training
from discreet.units import Unit

STORED = Path(__file__).parent / "results" / "torch_bands.json"
ROWS, BATCH, DELTA = 10_000, 100, 1e-6
BANDS = (1, 4, 16, 50, 100)


def noise_in_partial_sums(bands: int, epsilon: float, epochs: float) -> float:
    """Root mean square over steps of the noise in the sum of all steps so far."""
    guarantee = Guarantee(epsilon, DELTA, Unit("add-remove"))
    plan = plan_training(
        guarantee, ROWS, epochs=epochs, expected_batch=BATCH, sampling="poisson", slots=None, bands=bands
    )
    c = np.array(square_root_coefficients(bands), dtype=np.float64)
    inverse = np.zeros(plan.steps)
    inverse[0] = 1 / c[0]
    for t in range(1, plan.steps):
        reach = min(t, bands - 1)
        inverse[t] = -(c[1 : reach + 1] @ inverse[t - reach : t][::-1]) / c[0]
    variances = np.cumsum(np.cumsum(inverse) ** 2)
    return float(plan.noise_multiplier * np.linalg.norm(c) * np.sqrt(variances.mean()))


if __name__ == "__main__":
    found = []
    for epochs in (1, 5, 20):
        for epsilon in (1.0, 8.0):
            noise = {bands: noise_in_partial_sums(bands, epsilon, epochs) for bands in BANDS}
            found.append({"epochs": epochs, "epsilon": epsilon, "noise": noise})
            print(f"| {epochs} | {epsilon:g} | " + " | ".join(f"{value:.2f}" for value in noise.values()) + " |")
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
