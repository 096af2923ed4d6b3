"""Noise on the output grid of a certified minimiser."""

import math

import numpy as np

from discreet.measurements.minimum_noise import add_output_noise
from discreet.measurements.perturbed_minimum import longest_tilt
from discreet.noise import ball_limit
from discreet.noise.bits import Bits


def test_output_noise_covers_the_certificate():
    """The noise added to the certified point has the scale that the event's deviation says."""
    theta, off, ratio = np.array([0.3, -1.0, 2.0]), 1e-6, 0.01
    bits = Bits.seeded(5)
    noise = np.array([add_output_noise(theta, off, 0.0, ratio, "gaussian", bits) - theta for _ in range(4000)])
    least = 2 * off / ratio
    # a standard deviation from 12000 samples is within 4 % of the truth but with probability below 1e-9
    assert 0.96 * least < noise.std() < 1.6 * least
    assert longest_tilt(7) >= ball_limit(7) * math.sqrt(7)
