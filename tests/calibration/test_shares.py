"""Shares of a budget: what is left, what is refused, and that the releases together cost what one costs."""

import pytest

from discreet import events
from discreet.accounting import epsilon
from discreet.calibration.shares import multiplier, remaining_share
from discreet.errors import InvalidInput
from discreet.events import compose


def test_releases_by_shares_cost_together_what_one_release_costs():
    shares = {"first": 0.1, "second": 0.3}
    noises = [multiplier(5.0, share) for share in (*shares.values(), remaining_share("the rest", shares))]
    together = epsilon(compose([events.Gaussian(noise) for noise in noises]), 1e-6, "add-remove").upper
    assert together == pytest.approx(epsilon(events.Gaussian(5.0), 1e-6, "add-remove").upper, rel=1e-6)


def test_a_release_without_a_share_has_no_noise_and_is_left_out():
    assert multiplier(5.0, 0.0) == 0.0
    assert remaining_share("gradients", {"a_share": 0.0, "b_share": 0.5}, may_be_zero="a_share") == 0.5


@pytest.mark.parametrize("shares", [{"a_share": 0.0}, {"a_share": -0.1}, {"a_share": 1.0}, {"a_share": 0.6, "b": 0.4}])
def test_shares_that_leave_nothing_are_refused(shares):
    with pytest.raises(InvalidInput, match="leave some budget for gradients, got a_share="):
        remaining_share("gradients", shares)
