"""The impossible-output probe on real releases: whatever comes out on D could have come out on its neighbour D'.

Each measurement of the library is sampled on two neighbouring datasets. An output is *impossible* on the neighbour if
no noise within the sampler's reach gives that very float there. The same probe finds a mechanism that adds noise in
floating point.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import discreet.measurements
from discreet import mechanisms
from discreet.calibration import Guarantee
from discreet.data.memory import in_memory
from discreet.geometry import L1Ball
from discreet.losses import Logistic, Squared
from discreet.measurements import (
    BestOf,
    Joint,
    LastIterate,
    Noisy,
    PoissonSampling,
    QuantileDraw,
    RandomAllocation,
    SplitBatch,
)
from discreet.measurements.laplace_minimum import LaplaceMinimum
from discreet.measurements.mapped import Mapped
from discreet.measurements.minimum_noise import add_output_noise
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.measurements.perturbed_minimum import PerturbedMinimum, longest_tilt
from discreet.measurements.sample_splitting import SampleSplitting
from discreet.measurements.vertex_choice import VertexChoice
from discreet.mechanisms import Choice, Gaussian, Laplace, LaplacePeeling, Peeling, TopChoices
from discreet.noise import GAUSSIAN_LIMIT, LAPLACE_LIMIT, Bits
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import whole_vertices
from discreet.queries.histograms.ranks import Grid, Ranks
from discreet.queries.mapped import ColumnWeights
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.queries.sums.candidate_scores import CandidateScores
from discreet.queries.sums.column_second_moment import ColumnSecondMoment
from discreet.queries.sums.count import RowCount
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.moments import CrossMoment, LeastEigenvalue, SecondMoment, TargetMoment
from discreet.queries.sums.scaled_gradient import ScaledGradientSum, Scaling
from discreet.queries.sums.sketch import Sketch, SketchedSum
from discreet.queries.sums.sparse_sum import SparseSum
from discreet.recipes import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.output_perturbation import OutputPerturbation
from discreet.units import Unit

D = 12
ROWS, PLAIN = RowSpec(D, 1.0, 0.5), RowSpec(D, 1.0)
UNIT = Unit("add-remove")
THETA = np.linspace(-1, 1, D + 1)
RNG = np.random.default_rng(1)
X, Y = RNG.standard_normal((40, D)), RNG.choice([-1.0, 1.0], 40)
X[0] = 1e6  # the row that the neighbour does not have
RELEASES = 4000


def neighbours(rows: RowSpec = ROWS) -> tuple[Any, Any]:
    return in_memory(X, Y, rows), in_memory(X[1:], Y[1:], rows)


# --- noise added to integer sums --------------------------------------------------------------------------------

SCALED = Scaling(ROWS, np.arange(1, D + 2), np.arange(D) * 1000)
ADDITIVE: list[tuple[Any, Any, int]] = [
    (GradientSum(ROWS, Logistic(), THETA, 1.0), Gaussian(1.3), GAUSSIAN_LIMIT),
    (GradientSum(ROWS, Logistic(), THETA, 0.1), Gaussian(0.01), GAUSSIAN_LIMIT),
    (SecondMoment(ROWS), Gaussian(1.3), GAUSSIAN_LIMIT),
    (CrossMoment(ROWS, 1.0), Gaussian(1.3), GAUSSIAN_LIMIT),
    (TargetMoment(1.0), Gaussian(1.3), GAUSSIAN_LIMIT),
    (LeastEigenvalue(ROWS), Gaussian(1.3), GAUSSIAN_LIMIT),
    (SparseSum(PLAIN, 3), Gaussian(1.3), GAUSSIAN_LIMIT),
    (ColumnSecondMoment(ROWS, 2.0), Gaussian(1.3), GAUSSIAN_LIMIT),
    (ScaledGradientSum(SCALED, Logistic(), THETA, 1.0), Gaussian(1.3), GAUSSIAN_LIMIT),
    (SketchedSum(PLAIN, 3, Sketch(D, 4, 2, 7)), Gaussian(1.3), GAUSSIAN_LIMIT),
    (SparseSum(PLAIN, 3, "l1"), Laplace(0.7), LAPLACE_LIMIT),
    (RowCount(), Laplace(0.7), LAPLACE_LIMIT),
]


def impossible(query: Any, mechanism: Any, reach: int, releases: int) -> tuple[int, int]:
    """(outputs on D that no noise gives on D', outputs), coordinate by coordinate."""
    rows = getattr(query, "rows", ROWS)
    here, there = neighbours(rows)
    exact, other = query.integers(here), query.integers(there)
    bits = Bits.seeded(2)
    count = total = 0
    for _ in range(releases):
        output = np.asarray(mechanism.perturb(exact, query, bits))
        noise = np.rint(output / query.grid).astype(np.int64) - other
        again = query.grid * (other + noise).astype(np.float64)
        within = np.abs(noise) <= reach * mechanism.noise_multiplier * query.bound
        count += int((~(within & (again == output))).sum())
        total += output.size
    return count, total


@pytest.mark.parametrize(("query", "mechanism", "reach"), ADDITIVE, ids=lambda item: type(item).__name__)
def test_no_sum_is_released_that_the_neighbour_could_not_release(query: Any, mechanism: Any, reach: int) -> None:
    assert impossible(query, mechanism, reach, RELEASES)[0] == 0


def test_the_probe_finds_noise_in_floating_point() -> None:
    generator = np.random.default_rng(3)

    class FloatingGaussian(Gaussian):
        def perturb(self, integers: Any, query: Any, bits: Any) -> NDArray[np.float64]:
            scale = self.noise_multiplier * query.bound * query.grid
            return np.asarray(query.grid * integers + generator.normal(0.0, scale, integers.shape))

    query = GradientSum(ROWS, Logistic(), THETA, 1.0)
    count, total = impossible(query, FloatingGaussian(1.3), GAUSSIAN_LIMIT, 500)
    assert count / total > 0.9


# --- choices: one of finitely many public outputs ---------------------------------------------------------------


def scores() -> VertexScores:
    return VertexScores(ROWS, Logistic(), whole_vertices(L1Ball(2.0), D + 1), ChosenVertices(), 1.0)


CHOICES: list[tuple[Any, set[Any]]] = [
    (VertexChoice(scores(), Choice(5.0)), set(range(2 * (D + 1)))),
    (Noisy(scores(), Choice(5.0, "permute-and-flip")), set(range(2 * (D + 1)))),
    (Noisy(CandidateScores(ROWS, Logistic(), np.eye(D + 1), 2.0), Choice(5.0)), set(range(D + 1))),
    (QuantileDraw(Ranks(Grid.between(-2, 2, 0.5), 0.5), 0.1), {-2 + 0.5 * k for k in range(9)}),
]


@pytest.mark.parametrize(("measurement", "support"), CHOICES, ids=lambda item: type(item).__name__)
def test_every_choice_can_be_made_on_both_neighbours(measurement: Any, support: set[Any]) -> None:
    # With this noise every answer has a probability above 1/400 on both sides, so each is missed with probability
    # below (1 − 1/400)^5000 < 4e-6. No other answer may occur at all.
    bits = Bits.seeded(4)
    for data in neighbours():
        assert {measurement.sample(data, UNIT, bits) for _ in range(5000)} == support


TOP = TopChoices(2, 10.0)


def test_every_two_can_be_chosen_in_either_order_on_both_neighbours() -> None:
    # With this noise each of 156 answers has a probability above 1/230 on both sides, so each is missed with
    # probability below (1 − 1/230)^3500 < 3e-7. No other answer may occur at all.
    measurement = Noisy(CandidateScores(ROWS, Logistic(), np.eye(D + 1), 2.0), TOP)
    bits = Bits.seeded(10)
    for data in neighbours():
        drawn = [measurement.sample(data, UNIT, bits) for _ in range(3500)]
        assert {(answer.dtype.kind, answer.shape) for answer in drawn} == {("i", (TOP.s,))}
        assert {tuple(answer.tolist()) for answer in drawn} == set(permutations(range(D + 1), TOP.s))


PEELING: list[tuple[Any, int]] = [
    (Peeling(3, 40.0, 20.0), GAUSSIAN_LIMIT),
    (LaplacePeeling(3, 40.0), LAPLACE_LIMIT),
]


@pytest.mark.parametrize(("mechanism", "reach"), PEELING, ids=lambda item: type(item).__name__)
def test_peeling_releases_nothing_that_the_neighbour_could_not(mechanism: Any, reach: int) -> None:
    query = EntrywiseGradientSum(ROWS, Squared(), THETA, 1.0, 2.0)
    here, there = (query.integers(data) for data in neighbours())
    bits, chosen = Bits.seeded(5), np.zeros(D + 1, np.int64)
    for _ in range(1500):
        output = mechanism.perturb(here, query, bits)
        places = np.flatnonzero(output)
        assert places.size == mechanism.s  # with this noise a value that is exactly 0 has probability below 1e-9
        chosen[places] += 1
        noise = np.rint(output[places] / query.grid).astype(np.int64) - there[places]
        assert (query.grid * (there[places] + noise).astype(np.float64) == output[places]).all()
        assert (np.abs(noise) <= reach * mechanism.noise_multiplier * np.sqrt(mechanism.s) * query.bound).all()
    assert (chosen > 0).all()  # every place can be chosen


# --- minimisers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["gaussian", "gamma"])
@pytest.mark.parametrize("kind", [PerturbedMinimum, NoisyMinimum])
def test_no_minimiser_is_released_that_the_neighbour_could_not_release(
    kind: type, noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = RidgeMinimiser(ROWS, Logistic(), 5.0)
    tolerance = 2 * query.least_tolerance(5.0 * query.gradient_bound * longest_tilt(D + 1))
    arguments = {"deviation": 0.1} if kind is PerturbedMinimum else {}
    measurement = kind(query, 1.3, tolerance=tolerance, noise=noise, **arguments)
    rounded: list[tuple[Any, float]] = []

    def witness(theta: Any, error: float, moved: float, ratio: float, *rest: Any) -> Any:
        grid = 2.0 ** (np.frexp(error / np.sqrt(theta.size))[1] - 1)
        rounded.append((np.rint(theta / grid), float(grid), (moved + 2 * error + grid * np.sqrt(theta.size)) / ratio))
        return add_output_noise(theta, error, moved, ratio, *rest)

    for name in ("perturbed_minimum", "noisy_minimum"):
        module = importlib.import_module(f"discreet.measurements.{name}")
        monkeypatch.setattr(module, "add_output_noise", witness)
    bits = Bits.seeded(6)
    here, there = neighbours()
    measurement.sample(there, UNIT, bits)
    steps, grid, scale = rounded.pop()
    reach = GAUSSIAN_LIMIT if noise == "gaussian" else LAPLACE_LIMIT + 64 * (D + 1)
    for _ in range(40):
        output = measurement.sample(here, UNIT, bits)
        assert rounded.pop()[1:] == (grid, scale)  # the grid and the noise are public: no row moves them
        places = output / grid
        assert (places == np.rint(places)).all()
        if kind is NoisyMinimum:  # a tilt may move the neighbour's point anywhere, so there only the grid is checked
            assert (np.abs(places - steps) <= reach * scale / grid).all()


def test_a_minimiser_of_sparse_rows_is_released_on_a_public_grid() -> None:
    """On both neighbours alike, every coordinate is a whole number of steps far coarser than those of doubles."""
    here, there = neighbours()
    problem = Problem(ROWS, Logistic(), float(len(here)))
    measurement = next(OutputPerturbation(2.0, 2.0, noise="laplace", sparsity=2).steps(problem))
    assert isinstance(measurement, LaplaceMinimum)
    bits, step = Bits.seeded(8), 2.0**60
    values = np.array([measurement.sample(data, UNIT, bits) for data in (here, there) for _ in range(20)])
    while not (values / step == np.rint(values / step)).all():
        step /= 2
    assert step > 2.0**-40 * np.abs(values).max()


def test_a_last_iterate_is_a_whole_number_of_public_steps() -> None:
    guarantee, bits = Guarantee(1.0, 1e-6, Unit("replace-one")), Bits.seeded(9)
    options = {"iterate": "last", "accounting": "last-iterate", "iterations": 5}
    for data in neighbours():
        problem = Problem(ROWS, Logistic(), float(len(data)), ridge=0.1)
        measurement = next(recipe("descent")(problem, guarantee, **options).steps(problem))
        assert isinstance(measurement, LastIterate)
        factors = Fraction(measurement.step) * Fraction(measurement.clip) / Fraction(measurement.n)
        step = factors / measurement._query(measurement.start).bound
        for value in measurement.sample(data, guarantee.unit, bits).tolist():
            assert float(round(Fraction(value) / step) * step) == value


# --- nothing is forgotten ---------------------------------------------------------------------------------------


def _public_classes(package: Any, test: Callable[[type], bool]) -> set[str]:
    found = set()
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        for name, kind in inspect.getmembers(loaded, inspect.isclass):
            own = kind.__module__ == loaded.__name__ and not getattr(kind, "_is_protocol", False)
            if own and not name.startswith("_") and test(kind):
                found.add(name)
    return found


def test_every_mechanism_and_measurement_is_probed() -> None:
    probed = {type(m).__name__ for _, m, _ in ADDITIVE} | {type(m).__name__ for m, _ in PEELING}
    probed |= {"Choice", type(TOP).__name__}
    assert _public_classes(mechanisms, lambda kind: hasattr(kind, "perturb")) == probed
    # These only pass on what other measurements release; the next test is about them.
    combined = {"Joint", "SampleSplitting", "SplitBatch", "BestOf", "RandomAllocation", "Mapped"}
    minima = {"PerturbedMinimum", "NoisyMinimum", "LaplaceMinimum", "LastIterate"}
    asked = {"Noisy", "VertexChoice", "QuantileDraw"} | minima | combined
    assert _public_classes(discreet.measurements, lambda kind: hasattr(kind, "blank")) == asked


def test_combinations_release_what_their_parts_release() -> None:
    query = GradientSum(ROWS, Logistic(), THETA, 1.0)
    parts = [Noisy(query, Gaussian(1.3)), Noisy(RowCount(), Laplace(1.0), PoissonSampling(0.5))]

    def program() -> Any:
        first = yield Noisy(query, Gaussian(1.3))
        second = yield Noisy(query, Gaussian(1.3))
        return np.stack([first, second])

    def scored(run: int) -> Any:
        value = yield Noisy(query, Gaussian(1.3))
        return value, float(value[0])

    here, _ = neighbours()
    through = ColumnWeights(ROWS, np.linspace(0.3, 7.0, D))
    bits = Bits.seeded(7)
    for _ in range(300):
        gradient, count = Joint(parts).sample(here, UNIT, bits)
        answers = SampleSplitting(program, 2).sample(here, UNIT, bits)
        cut = SplitBatch(query, Gaussian(1.3), PoissonSampling(0.5), 3).sample(here, UNIT, bits)
        best = BestOf(scored, 2.0).sample(here, UNIT, bits)
        epoch = RandomAllocation(program, 2).sample(here, UNIT, bits)
        seen = Mapped(ROWS, Noisy(query, Gaussian(1.3)), through).sample(here, UNIT, bits)
        for value in (gradient, *answers, *cut, best, *epoch, seen):
            assert (value / query.grid == np.rint(value / query.grid)).all()
        assert count == np.rint(count)
