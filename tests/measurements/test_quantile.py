"""Private quantiles: exact probabilities of all neighbours on a small domain, an attack with power, and the twin."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import beta, chisquare

import discreet as dp
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.estimators.quantile import quantile
from discreet.ledger import Ledger
from discreet.measurements import QuantileDraw
from discreet.noise import Bits
from discreet.queries.histograms.ranks import Grid, Ranks
from discreet.rows import RowSpec
from discreet.units import Unit

GRID = Grid.between(0, 3, 1)


def column(values: object) -> object:
    y = np.asarray(values, dtype=float)
    return in_memory(np.empty((len(y), 0)), y, RowSpec(0, 1.0, 1.0))


def log_law(values: object, draw: QuantileDraw, unit: Unit) -> np.ndarray:
    """log P of each position, from the scores and the scale that the sampler is given."""
    found = draw.query.scores(column(values))
    scores = np.repeat(found.values, found.lengths) / draw.scale(unit)
    return scores - logsumexp(scores)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("q", [0.5, 0.9])
def test_all_neighbours_on_a_small_domain(relation: str, q: float) -> None:
    """Log-odds between any two positions move by at most ε (bounded range), so each probability by at most e^ε."""
    draw, unit = QuantileDraw(Ranks(GRID, q), 0.8), Unit(relation)  # type: ignore[arg-type]
    atoms = [0.0, 1.0, 2.0, 3.0, np.nan]
    worst_range = worst_loss = 0.0
    for n in range(6):
        for rows in itertools.combinations_with_replacement(atoms, n):
            grown = [log_law([*rows, value], draw, unit) for value in atoms]
            pairs = (
                itertools.combinations(grown, 2)
                if relation == "replace-one"
                else ((g, log_law(rows, draw, unit)) for g in grown)
            )
            for here, there in pairs:
                loss = here - there
                worst_range = max(worst_range, float(np.ptp(loss)))
                worst_loss = max(worst_loss, float(abs(loss).max()))
    assert worst_range <= 0.8 * (1 + 1e-12)
    assert worst_loss <= 0.8
    if q == 0.5:
        assert worst_range > 0.79  # the noise is not larger than it must be


def test_the_sampler_draws_that_law() -> None:
    """χ² at p = 1e-6."""
    draw, unit, bits = QuantileDraw(Ranks(GRID, 0.3), 1.5), Unit("add-remove"), Bits.seeded(3)
    values = [0, 0, 2, 3, 3]
    counts = np.zeros(4)
    for _ in range(10_000):
        counts[int(draw.sample(column(values), unit, bits))] += 1
    assert chisquare(counts, 10_000 * np.exp(log_law(values, draw, unit))).pvalue > 1e-6


def _lower_bound(claimed: float, noise: float, trials: int) -> float:
    """A 99.9 % Clopper–Pearson lower bound on the ε of one draw whose scale is ``noise`` times the claimed one.

    Of all columns of up to five rows on eight positions, this pair separates best, at the last position.
    """
    draw = QuantileDraw(Ranks(Grid.between(0, 7, 1), 0.5), claimed / noise)
    unit, bits = Unit("replace-one"), Bits.seeded(9)
    likely, rare = (
        sum(draw.sample(column(rows), unit, bits) == 7.0 for _ in range(trials))
        for rows in ([0, 6, 6, 7], [0, 6, 6, 0])
    )
    low = beta.ppf(0.0005, likely, trials - likely + 1)
    high = beta.ppf(0.9995, rare + 1, trials - rare)
    return float(np.log(low / high))


def test_attack_stays_below_the_claim_and_has_power() -> None:
    """Fails by chance with probability below 1e-3."""
    assert 0.4 < _lower_bound(1.0, 1.0, 6000) <= 1.0
    assert _lower_bound(1.0, 0.5, 6000) > 1.0


def test_without_privacy_it_is_the_quantile() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=1001)
    for q in (0.1, 0.5, 0.93):
        found = quantile(values, q, epsilon=math.inf, bounds=(-8, 8), adjacency="replace-one")
        assert found == pytest.approx(np.quantile(values, q, method="inverted_cdf"), abs=16 / 2**20)


def test_accuracy_is_that_of_the_theorem() -> None:
    """Rank error ≤ b·ln(positions/β) with probability 1 − β; here β = 1e-6 for each of 30 answers."""
    rng = np.random.default_rng(2)
    values = rng.exponential(size=10_000)
    b = 2 * 1.0 / 1.0
    for seed in range(30):
        found = quantile(values, 0.5, epsilon=1.0, bounds=(0, 100), adjacency="replace-one", random_state=seed)
        rank = (values < found).sum()
        assert abs(rank - 5000) <= b * math.log((2**20 + 1) / 1e-6) + 1


def test_several_quantiles_share_the_budget_and_do_not_cross() -> None:
    ledger = Ledger()
    values = np.arange(1000.0)
    found = quantile(
        values, [0.9, 0.1, 0.5], epsilon=3.0, bounds=(0, 1000), adjacency="add-remove", ledger=ledger, random_state=4
    )
    assert found[1] <= found[2] <= found[0]
    charges = list(ledger.history())
    assert len(charges) == 1
    assert dp.accounting.epsilon(charges[0].event, 0.0, "add-remove").upper == pytest.approx(3.0)


def test_persons_with_several_rows_get_the_whole_guarantee() -> None:
    ledger, unit = Ledger(), Unit("add-remove", 4)
    quantile(np.arange(100.0), epsilon=1.0, bounds=(0, 100), adjacency=unit, ledger=ledger)
    assert dp.accounting.epsilon(ledger.history()[0].event, 0.0, unit).upper <= 1.0


def test_no_rows_and_missing_rows_raise_nothing() -> None:
    for values in ([], [np.nan], [np.inf, -np.inf]):
        found = quantile(values, epsilon=1.0, bounds=(0, 1), adjacency="add-remove")
        assert 0 <= found <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"bounds": (1, 0)},
        {"bounds": 3},
        {"q": 2},
        {"q": []},
        {"step": -1.0},
    ],
)
def test_bad_input(wrong: dict[str, object]) -> None:
    arguments: dict[str, object] = {"epsilon": 1.0, "bounds": (0, 1), "adjacency": "add-remove"} | wrong
    with pytest.raises(InvalidInput):
        dp.quantile([0.5], **arguments)  # type: ignore[arg-type]
