"""Updates: how a noisy gradient moves θ. Pure pairs (init, call), so that every first-order solver is one loop.

An update sees only released gradients, so whatever it does is post-processing. The noise's standard deviation is
public; updates that square gradients use it to take the noise's share out again (Tang, Shpilevskiy and Lécuyer 2024).

    state = update.init(d)
    theta, state = update(theta, gradient, state, noise_std=…)
"""

from discreet.updates.adafactor import Adafactor
from discreet.updates.adam import Adam, AdamW
from discreet.updates.base import Update
from discreet.updates.momentum import Momentum
from discreet.updates.named import UPDATES, named_update
from discreet.updates.schedules import Schedule, constant, cosine, inverse_sqrt, inverse_time
from discreet.updates.sgd import Sgd
from discreet.updates.svrg import Svrg

__all__ = [
    "UPDATES",
    "Adafactor",
    "Adam",
    "AdamW",
    "Momentum",
    "Schedule",
    "Sgd",
    "Svrg",
    "Update",
    "constant",
    "cosine",
    "inverse_sqrt",
    "inverse_time",
    "named_update",
]
