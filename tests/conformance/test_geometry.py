"""Every set: projections by the variational inequality, gauges and dual norms, oracles against vertices, widths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from discreet.errors import InvalidInput
from discreet.geometry import (
    Atomic,
    Box,
    DataProjector,
    Geometry,
    GroupInfL1Ball,
    GroupL1Ball,
    InfProjectable,
    L1Ball,
    L2Ball,
    LinearOracle,
    Polytope,
    Projectable,
    Simplex,
    SparseSet,
    WholeSpace,
)

D = 5
GROUPS = [0, 1, 0, 1, 1]
_VERTICES = np.random.default_rng(5).normal(size=(9, D))
SETS: list[Geometry] = [
    L2Ball(1.7),
    Box(-0.5, 2.0),
    Box([0.5, -1.0, 0.0, -3.0, -1.0], [1.0, 2.0, 0.0, -1.0, 0.0]),
    L1Ball(1.3),
    Simplex(0.8),
    GroupL1Ball(GROUPS, radius=1.2),
    GroupInfL1Ball(GROUPS, radius=1.2),
    Polytope(_VERTICES),
    Polytope(np.concatenate([np.eye(D), -np.eye(D)]) * 0.7),
    SparseSet(2, radius=1.5),
    SparseSet(2),
    WholeSpace(),
]
BOUNDED = [s for s in SETS if math.isfinite(s.radius_in(D))]
CONVEX = [s for s in BOUNDED if s.convex]


def names(value: object) -> str:
    return type(value).__name__


def every(*capabilities: type, among: list[Geometry] = SETS) -> pytest.MarkDecorator:
    chosen = [s for s in among if all(isinstance(s, capability) for capability in capabilities)]
    assert chosen
    return pytest.mark.parametrize("domain", chosen, ids=names)


def points(scale: float = 10.0):
    number = st.floats(-scale, scale, allow_subnormal=False).map(lambda x: 0.0 if abs(x) < 1e-6 else x)
    return arrays(np.float64, D, elements=number)


FEW = settings(max_examples=60, deadline=None, derandomize=True)


def members(domain: Geometry, count: int = 40) -> np.ndarray:
    """Points of the set that no method under test has made: mixtures of its extreme points, found by support."""
    rng = np.random.default_rng(1)
    extremes = extreme_points(domain)
    if domain.convex:
        return rng.dirichlet(np.full(len(extremes), 0.3), size=count) @ extremes
    return extremes * rng.uniform(size=(len(extremes), 1))


def extreme_points(domain: Geometry) -> np.ndarray:
    """A brute-force list of extreme points (all of them for a polytope, a sample for a round set)."""
    rng = np.random.default_rng(2)
    directions = rng.normal(size=(300, D))
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    signs = np.asarray(np.meshgrid(*[[-1.0, 1.0]] * D)).reshape(D, -1).T
    if isinstance(domain, L2Ball):
        return domain.radius * unit
    if isinstance(domain, Box):
        return np.where(signs > 0, domain.high, domain.low)
    if isinstance(domain, L1Ball):
        return domain.radius * np.concatenate([np.eye(D), -np.eye(D)])
    if isinstance(domain, Simplex):
        return domain.radius * np.eye(D)
    if isinstance(domain, Polytope):
        return np.asarray(domain.vertices)
    if isinstance(domain, GroupL1Ball | GroupInfL1Ball):
        rows = signs if isinstance(domain, GroupInfL1Ball) else directions
        masked = np.concatenate([np.where(np.asarray(GROUPS) == g, rows, 0.0) for g in (0, 1)])
        lengths = np.linalg.norm(masked, axis=1, keepdims=True) if isinstance(domain, GroupL1Ball) else 1.0
        return domain.radius * masked / lengths
    assert isinstance(domain, SparseSet)
    kept = np.asarray([np.where(np.isin(np.arange(D), rng.permutation(D)[: domain.s]), row, 0.0) for row in directions])
    return (domain.radius or 1.0) * kept / np.linalg.norm(kept, axis=1, keepdims=True)


def test_no_set_is_left_out() -> None:
    concrete = [s for s in Geometry.__subclasses__() if not s.__name__.startswith("_")]
    grouped = [s for base in Geometry.__subclasses__() for s in base.__subclasses__()]
    shipped = {s for s in (*concrete, *grouped) if s.__module__.startswith("discreet.")}  # other tests define sets too
    assert shipped == {type(s) for s in SETS}


@every(Projectable)
@given(theta=points())
@FEW
def test_projection_lands_in_the_set_and_stays_there(domain: Geometry, theta: np.ndarray) -> None:
    before = theta.copy()
    projected = domain.project(theta)
    assert np.array_equal(theta, before)
    assert domain.contains(projected)
    np.testing.assert_allclose(domain.project(projected), projected, atol=1e-9)


@every(Projectable, among=CONVEX)
@given(theta=points())
@FEW
def test_projection_satisfies_the_variational_inequality(domain: Geometry, theta: np.ndarray) -> None:
    """⟨θ − Pθ, c − Pθ⟩ ≤ 0 for all c in the set: necessary and sufficient for a projection on a convex set."""
    projected = domain.project(theta)
    residual = theta - projected
    gaps = (members(domain) - projected) @ residual
    support = (extreme_points(domain) - projected) @ residual
    slack = 1e-8 * (1 + np.linalg.norm(theta))
    assert gaps.max() <= slack
    assert support.max() <= slack
    assert domain.dual_norm(residual) - projected @ residual <= slack


@every(Projectable, among=CONVEX)
@given(theta=points(), other=points())
@FEW
def test_projection_does_not_expand(domain: Geometry, theta: np.ndarray, other: np.ndarray) -> None:
    distance = np.linalg.norm(domain.project(theta) - domain.project(other))
    assert distance <= np.linalg.norm(theta - other) + 1e-8


@given(gradient=points())
@FEW
def test_group_selection_reaches_the_linear_minimiser(gradient: np.ndarray) -> None:
    ball = GroupL1Ball(GROUPS, radius=1.2)
    scores = ball.group_scores(gradient)
    for group in (0, 1):
        atom = ball.group_atom(group, -gradient)
        assert atom @ gradient == pytest.approx(scores[group], abs=1e-9)
        assert not atom[np.asarray(GROUPS) != group].any()
    assert scores.min() == pytest.approx(ball.linear_minimiser(gradient) @ gradient, abs=1e-9)


@pytest.mark.parametrize("domain", [SparseSet(2, radius=1.5), SparseSet(2)], ids=repr)
@given(theta=points())
@FEW
def test_hard_thresholding_is_the_nearest_sparse_point(domain: SparseSet, theta: np.ndarray) -> None:
    projected = domain.project(theta)
    best = math.inf
    for i in range(D):
        for j in range(i + 1, D):
            candidate = np.zeros(D)
            candidate[[i, j]] = theta[[i, j]]
            length = np.linalg.norm(candidate)
            if domain.radius is not None and length > domain.radius:
                candidate *= domain.radius / length
            best = min(best, float(np.linalg.norm(theta - candidate)))
    assert np.count_nonzero(projected) <= 2
    assert np.linalg.norm(theta - projected) == pytest.approx(best, abs=1e-9)


@every(InfProjectable, among=BOUNDED)
@given(theta=points(3.0))
@FEW
def test_inf_projection_is_no_farther_than_any_member(domain: Geometry, theta: np.ndarray) -> None:
    projected = domain.project_inf(theta)
    assert domain.contains(projected, 1e-8)
    distance = np.abs(theta - projected).max()
    assert distance <= np.abs(theta - domain.project(theta)).max() + 1e-9
    assert distance <= np.abs(theta - members(domain)).max(axis=1).min() + 1e-9
    assert distance == pytest.approx(least_inf_distance(domain, theta), abs=1e-7)


def least_inf_distance(domain: Geometry, theta: np.ndarray) -> float:
    """The same minimum by duality, max over ‖u‖₁ ≤ 1 of ⟨u, θ⟩ − h(u), or by linear programming over the vertices."""
    if isinstance(domain, L2Ball):  # bisection on t: is the soft-thresholded point short enough?
        low, high = 0.0, float(np.abs(theta).max())
        for _ in range(200):
            mid = (low + high) / 2
            inside = np.linalg.norm(np.maximum(np.abs(theta) - mid, 0)) <= domain.radius
            low, high = (low, mid) if inside else (mid, high)
        return high
    vertices = extreme_points(domain)
    m = len(vertices)
    upper = np.concatenate([np.c_[vertices.T, -np.ones(D)], np.c_[-vertices.T, -np.ones(D)]])
    solution = linprog(
        np.r_[np.zeros(m), 1.0],
        A_ub=upper,
        b_ub=np.concatenate([theta, -theta]),
        A_eq=np.r_[np.ones(m), 0.0][None, :],
        b_eq=[1.0],
        method="highs",
    )
    return float(solution.fun)


@every()
@given(u=points(), v=points())
@FEW
def test_dual_norm_inequality(domain: Geometry, u: np.ndarray, v: np.ndarray) -> None:
    gauge, support = domain.norm(u), domain.dual_norm(v)
    if math.isfinite(gauge) and math.isfinite(support):
        assert u @ v <= gauge * support + 1e-7 * (1 + np.linalg.norm(u) * np.linalg.norm(v))


@every(among=BOUNDED)
def test_dual_norm_inequality_is_sharp_on_extreme_points(domain: Geometry) -> None:
    for v in np.random.default_rng(9).normal(size=(20, D)):
        attained = (extreme_points(domain) @ v).max()
        assert attained <= domain.dual_norm(v) + 1e-9
        if not isinstance(domain, L2Ball | GroupL1Ball | SparseSet):  # their extreme points are only sampled
            assert attained == pytest.approx(domain.dual_norm(v), rel=1e-9)


@every()
@given(theta=points(), factor=st.floats(0.01, 100))
@FEW
def test_gauge_is_homogeneous(domain: Geometry, theta: np.ndarray, factor: float) -> None:
    assert domain.norm(factor * theta) == pytest.approx(factor * domain.norm(theta), rel=1e-7)
    assert domain.dual_norm(factor * theta) == pytest.approx(factor * domain.dual_norm(theta), rel=1e-9)
    assert domain.norm(np.zeros(D)) == 0


@every(among=BOUNDED)
def test_gauge_is_one_on_the_boundary_and_counts_multiples(domain: Geometry) -> None:
    for point in members(domain):
        gauge = domain.norm(point)
        assert gauge <= 1 + 1e-9
        assert domain.contains(point)
        if gauge > 1e-3:
            assert domain.contains(point / gauge)
            if domain.contains(np.zeros(D)):
                assert domain.contains(point / gauge * (1 - 1e-6))
                assert not domain.contains(point / gauge * (1 + 1e-6))
            else:  # the least multiple that reaches the point: a smaller multiple of the set does not
                assert not domain.contains(point / (gauge * (1 - 1e-6)))


def test_gauge_of_a_box_away_from_the_origin() -> None:
    box = Box([1.0, -2.0], [2.0, 1.0])
    assert box.norm([3.0, 0.0]) == 1.5  # t ≥ 3/2 from the right, t ≤ 3 from the left
    assert box.norm([-1.0, 0.0]) == math.inf
    assert box.norm([1.0, -8.0]) == math.inf  # t ≥ 4 against t ≤ 1
    assert Box([0.0, -1.0], [0.0, 1.0]).norm([0.1, 0.0]) == math.inf


@every(LinearOracle, among=BOUNDED)
@given(gradient=points())
@FEW
def test_linear_minimiser_beats_every_extreme_point(domain: Geometry, gradient: np.ndarray) -> None:
    vertex = domain.linear_minimiser(gradient)
    assert domain.contains(vertex)
    value = vertex @ gradient
    assert value <= (extreme_points(domain) @ gradient).min() + 1e-9
    assert value == pytest.approx(-domain.dual_norm(-gradient), abs=1e-9)


@every(Atomic)
@given(gradient=points())
@FEW
def test_atoms_scores_and_oracle_agree(domain: Geometry, gradient: np.ndarray) -> None:
    atoms = np.asarray([domain.atom(i, D) for i in range(domain.n_atoms(D))])
    scores = domain.scores(gradient)
    np.testing.assert_allclose(scores, atoms @ gradient, atol=1e-12 * (1 + np.abs(gradient).max()) * 10)
    assert scores.min() == pytest.approx(domain.linear_minimiser(gradient) @ gradient, abs=1e-9)
    bound = float(np.abs(gradient).max())
    assert np.abs(scores).max() <= domain.max_abs_inner(bound) * (1 + 1e-12)
    # The bound is attained by the sign pattern of the largest atom.
    largest = atoms[np.abs(atoms).sum(axis=1).argmax()]
    assert np.abs(largest @ np.sign(largest)) == pytest.approx(domain.max_abs_inner(1.0))


@every(Atomic)
def test_atoms_are_the_vertices_and_others_do_not_exist(domain: Geometry) -> None:
    atoms = {tuple(domain.atom(i, D).round(12)) for i in range(domain.n_atoms(D))}
    expected = {tuple(row.round(12) + 0.0) for row in extreme_points(domain)}
    assert atoms == expected
    for index in (-1, domain.n_atoms(D)):
        with pytest.raises(InvalidInput, match="does not exist"):
            domain.atom(index, D)


def test_only_polytopes_are_atomic() -> None:
    assert {names(s) for s in SETS if isinstance(s, Atomic)} == {"L1Ball", "Simplex", "GroupInfL1Ball", "Polytope"}
    assert not isinstance(WholeSpace(), LinearOracle)
    assert not isinstance(GroupInfL1Ball(GROUPS), Projectable)


@every(among=BOUNDED)
@pytest.mark.parametrize("order", [1, 2])
def test_radius_and_diameter_against_extreme_points(domain: Geometry, order: int) -> None:
    extremes = extreme_points(domain)
    round_set = isinstance(domain, L2Ball | GroupL1Ball | SparseSet)
    tolerance = 0.15 if round_set else 1e-9  # the sample of a sphere comes near the farthest point, never beyond
    radius = np.linalg.norm(extremes, ord=order, axis=1).max()
    assert radius <= domain.radius_in(D, order) * (1 + 1e-12)
    assert radius >= domain.radius_in(D, order) * (1 - tolerance)
    distances = np.linalg.norm(extremes[:, None, :] - extremes[None, :, :], ord=order, axis=2)
    assert distances.max() <= domain.diameter(D, order) * (1 + 1e-12)
    assert distances.max() >= domain.diameter(D, order) * (1 - tolerance)


@every(among=BOUNDED)
def test_gaussian_width_against_monte_carlo(domain: Geometry) -> None:
    """A second simulation with 20 000 draws; five standard errors, so a false alarm has probability 6e-7 a set."""
    width = domain.gaussian_width(D)
    draws = np.random.default_rng(12345).normal(size=(20_000, D))
    values = np.asarray([domain.dual_norm(g) for g in draws])
    error = math.hypot(values.std() / math.sqrt(len(values)), width.standard_error)
    assert abs(values.mean() - width.value) <= 5 * error
    assert width == domain.gaussian_width(D)  # a function of the set alone


@pytest.mark.parametrize("d", [1, 2, 10, 1000, 10**6])
def test_widths_respect_the_classical_bounds(d: int) -> None:
    assert d / math.sqrt(d + 1) <= L2Ball(1.0).gaussian_width(d).value * (1 + 1e-9)
    assert L2Ball(1.0).gaussian_width(d).value <= math.sqrt(d)
    assert L1Ball(1.0).gaussian_width(d).value <= math.sqrt(2 * math.log(2 * d))
    assert Simplex(1.0).gaussian_width(d).value <= math.sqrt(2 * math.log(d)) + 1e-15
    one_group = GroupL1Ball(np.zeros(d, dtype=int)).gaussian_width(d).value
    assert one_group == pytest.approx(L2Ball(1.0).gaussian_width(d).value, rel=1e-8)
    singletons = GroupL1Ball(np.arange(d)).gaussian_width(d).value
    assert singletons == pytest.approx(L1Ball(1.0).gaussian_width(d).value, rel=1e-8)


def test_known_expected_maxima() -> None:
    assert Simplex(1.0).gaussian_width(2).value == pytest.approx(1 / math.sqrt(math.pi), rel=1e-12)
    assert Simplex(1.0).gaussian_width(3).value == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-12)
    assert L1Ball(1.0).gaussian_width(2).value == pytest.approx(2 / math.sqrt(math.pi), rel=1e-12)


@every(Projectable)
def test_projection_survives_huge_and_tiny_values(domain: Geometry) -> None:
    for point in ([1e308, -1e308, 1e308, 0.0, 1.0], [1e-308, -1e-308, 0.0, 0.0, 5e-324], [1e200] * D):
        if isinstance(domain, Polytope) and max(point) > 1:
            continue  # distances to the vertices are beyond double precision there
        projected = domain.project(point)
        assert np.isfinite(projected).all()
        assert domain.contains(projected)


@pytest.mark.parametrize("domain", [L2Ball(1.0), L1Ball(10.0), Simplex(10.0), SparseSet(100, 1.0)], ids=names)
def test_a_million_coordinates(domain: Geometry) -> None:
    d = 1_000_000
    theta = np.random.default_rng(3).normal(size=d)
    projected = domain.project(theta)
    assert domain.contains(projected)
    if domain.convex:
        residual = theta - projected
        assert domain.dual_norm(residual) == pytest.approx(projected @ residual, rel=1e-9)
        infinitely = domain.project_inf(theta)
        assert domain.contains(infinitely, 1e-8)
        assert np.abs(theta - infinitely).max() <= np.abs(residual).max() + 1e-9


def test_data_projector() -> None:
    rng = np.random.default_rng(4)
    for n, d, rank in ((50, 8, 3), (5, 30, 5), (40, 6, 6)):
        rows = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
        M = DataProjector(rows)
        assert (M.rank, M.d) == (rank, d)
        theta = rng.normal(size=d)
        projected = M.project(theta)
        np.testing.assert_allclose(rows @ projected, rows @ theta, atol=1e-10)
        np.testing.assert_allclose(M.project(projected), projected, atol=1e-12)
        assert M.seminorm(theta) == pytest.approx(math.sqrt(theta @ projected))
        assert M.seminorm(theta - projected) == pytest.approx(0.0, abs=1e-10)
        noise = rng.normal(size=(4000, d)) * 0.3
        measured = math.sqrt(np.mean([M.seminorm(row) ** 2 for row in noise]))
        assert measured == pytest.approx(M.noise_seminorm(0.3), rel=0.08)  # ≥ 6 standard errors
    assert DataProjector(np.zeros((3, 2))).rank == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: L2Ball(0.0),
        lambda: L1Ball(-1.0),
        lambda: Simplex(math.inf),
        lambda: L2Ball(math.nan),
        lambda: Box(1.0, 0.0),
        lambda: Box([0.0, 0.0], [1.0]),
        lambda: Box(-math.inf, 0.0),
        lambda: GroupL1Ball([0, 2]),
        lambda: GroupL1Ball([]),
        lambda: GroupL1Ball([0.0, 1.0]),
        lambda: GroupL1Ball([0, -1]),
        lambda: GroupL1Ball([0, 1], radius=0.0),
        lambda: GroupInfL1Ball(np.zeros(21, dtype=int)),
        lambda: Polytope([]),
        lambda: Polytope([[0.0, math.nan]]),
        lambda: SparseSet(0),
        lambda: SparseSet(2.0),  # type: ignore[arg-type]
        lambda: SparseSet(2, radius=-1.0),
        lambda: SparseSet(2).linear_minimiser([1.0, 2.0, 3.0]),
        lambda: Box([0.0, 0.0], 1.0).project([1.0, 2.0, 3.0]),
        lambda: GroupL1Ball([0, 1]).project([1.0, 2.0, 3.0]),
        lambda: GroupL1Ball([0, 1]).group_atom(2, [1.0, 2.0]),
        lambda: Polytope([[0.0, 1.0]]).gaussian_width(3),
        lambda: L2Ball(1.0).project([[1.0]]),
        lambda: L2Ball(1.0).gaussian_width(0),
        lambda: L1Ball(1.0).diameter(3, order=3),
        lambda: DataProjector(np.zeros((0, 2))),
        lambda: DataProjector([[math.inf]]),
        lambda: DataProjector([[1.0, 2.0]]).project([1.0]),
    ],
)
def test_bad_input_is_refused(make) -> None:
    with pytest.raises(InvalidInput):
        make()
