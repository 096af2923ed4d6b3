"""One accountant other than ours on one row, in its own interpreter: prints {"epsilon": [low, high], "cpu":
seconds} as JSON.

Usage: python accounting_peer.py PEER KIND SIGMA RATE STEPS DELTA [EPSILON]
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings

warnings.filterwarnings("ignore")
_BUDGET = 12.0  # seconds of repeats beyond the first run


def dp_accounting_epsilon(sigma, rate, steps, delta):
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma)), steps)
    return 0.0, accountant.get_epsilon(delta)


def dp_accounting_calibrate(rate, steps, delta, epsilon):
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    return dp_accounting.calibrate_dp_mechanism(
        PLDAccountant,
        lambda s: dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(s)), steps
        ),
        epsilon,
        delta,
    )


def prv_epsilon(sigma, rate, steps, delta):
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    prv = PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=rate)
    accountant = PRVAccountant(prvs=[prv], max_self_compositions=[steps], eps_error=0.01, delta_error=delta / 1000)
    low, _, high = accountant.compute_epsilon(delta=delta, num_self_compositions=[steps])
    return float(low), float(high)


def opacus_epsilon(sigma, rate, steps, delta):
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(sigma, rate, steps)]
    return 0.0, float(accountant.get_epsilon(delta=delta))


def autodp_epsilon(sigma, rate, steps, delta):
    from autodp import mechanism_zoo, transformer_zoo

    noise = mechanism_zoo.GaussianMechanism(sigma=sigma)
    if rate < 1:
        noise.neighboring = "add_remove"
        noise = transformer_zoo.AmplificationBySampling(PoissonSampling=True)(noise, rate, improved_bound_flag=True)
    return 0.0, float(transformer_zoo.Composition()([noise], [steps]).get_approxDP(delta))


def main() -> None:
    peer, kind, *numbers = sys.argv[1:]
    sigma, rate, steps, delta = float(numbers[0]), float(numbers[1]), int(float(numbers[2])), float(numbers[3])
    resource.setrlimit(resource.RLIMIT_AS, (10 << 30, 10 << 30))
    if kind == "calibrate":
        task = lambda: dp_accounting_calibrate(rate, steps, delta, float(numbers[4]))  # noqa: E731
    else:
        function = {
            "dp_accounting": dp_accounting_epsilon,
            "prv_accountant": prv_epsilon,
            "opacus": opacus_epsilon,
            "autodp": autodp_epsilon,
        }[peer]
        task = lambda: function(sigma, rate, steps, delta)  # noqa: E731
    times, spent = [], 0.0
    while len(times) < 5 and (not times or spent < _BUDGET):
        begin = time.process_time()
        value = task()
        times.append(time.process_time() - begin)
        spent += times[-1]
    if len(times) > 1:
        times = times[1:] if len(times) > 5 else times
    print(json.dumps({"value": value, "cpu": min(times)}))


main()
