"""Classic mistakes of private learning, planted one by one: each must make a check fire that is silent without it.

Checks are of four kinds: sensitivities in exact integers, attacks whose errors prove a lower bound on ε, comparisons of
what was charged with what was done, and the order in which charge and sampling happen.
"""

from __future__ import annotations

import csv
import importlib
import math
import os
import pickle
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import beta
from tests.accounting.small_mechanisms import attained

import discreet as dp
from discreet import events
from discreet.accounting import curve, epsilon, histories
from discreet.accounting.bounds import Bounds, Contradiction
from discreet.accounting.exact import gaussian
from discreet.accounting.exact.contour import Contour
from discreet.accounting.exact.pairs import GaussianPair
from discreet.accounting.exact.transform import OnContour
from discreet.accounting.rules import leaves as leaf_rules
from discreet.accounting.rules import sampling as sampling_rules
from discreet.data.columns import Person
from discreet.data.encoding import Encoder
from discreet.data.frames import as_table, read_table
from discreet.data.memory import in_memory
from discreet.data.persons import Persons
from discreet.data.tokens import place_cells
from discreet.errors import PlanViolation
from discreet.ledger import Ledger
from discreet.ledger.open_book import OpenBook
from discreet.ledger.sqlite import SQLiteStore
from discreet.losses import Logistic, Squared
from discreet.measurements import FixedSizeSampling, Noisy, PoissonSampling
from discreet.mechanisms import Gaussian, Laplace
from discreet.noise import Bits
from discreet.queries.sums.count import RowCount
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import ROW_BITS, RowSpec
from discreet.solvers import Problem
from discreet.solvers.descent import Descent
from discreet.units import Unit
from discreet.updates import Sgd
from discreet.vault import Payment, Vault

ROWS = RowSpec(1, 1.0)
DELTA = 1e-3
RUNS = 6000
CONFIDENCE = 0.9999  # a check that should be silent fires with probability at most 1e-4, and seeds are fixed


def proved_epsilon(hits: int, misses: int, runs: int, delta: float) -> float:
    """Clopper–Pearson lower bound on ε from an event that happened ``hits`` times on D and ``misses`` times on D'."""
    level = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(level, hits, runs - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - level, misses + 1, runs - misses)) if misses < runs else 1.0
    return math.log((low - delta) / high) if low > delta else 0.0


def attack(release: Callable[[Any, Bits], float], one: Any, two: Any, threshold: float) -> float:
    """The ε proved by the event {release > threshold}."""
    bits = Bits.seeded(1)
    hits, misses = (sum(release(data, bits) > threshold for _ in range(RUNS)) for data in (one, two))
    return proved_epsilon(hits, misses, RUNS, DELTA)


def data(*xs: float) -> Any:
    """Rows (x) with target −1, so that the squared loss has gradient x at θ = 0."""
    return in_memory(np.array(xs)[:, None], -np.ones(len(xs)), ROWS)


def gradient(clip: float = 1.0) -> GradientSum:
    return GradientSum(ROWS, Squared(), np.zeros(1), clip)


# Each case: a check that returns True when it fires, as a function of whether the bug is planted.
Check = Callable[[bool, pytest.MonkeyPatch], bool]
CHECKS: dict[str, Check] = {}


def bug(check: Check) -> Check:
    CHECKS[check.__name__] = check
    return check


@bug
def noise_for_one_clip_where_a_replaced_row_moves_two(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Replace-one moves a sum by 2C. Whoever calibrates noise to C spends twice the ε that is said."""
    relation = "add-remove" if planted else "replace-one"
    noise = dp.accounting.calibrate(events.Gaussian, 1.0, DELTA, relation)  # then used under replace-one
    measurement = Noisy(gradient(), Gaussian(noise))

    def release(rows: Any, bits: Bits) -> float:
        return float(measurement.sample(rows, Unit("replace-one"), bits)[0])

    return attack(release, data(1.0, 1.0), data(-1.0, 1.0), 2 * noise) > 1.0


@bug
def forgotten_clip(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A row's contribution, in integers, is longer than the bound that the event rests on."""
    if planted:
        from discreet.queries.kernels import slope_caps

        def no_clip(squared_length: Any, bound: float) -> Any:
            return np.full(len(squared_length), 2.0**50)

        patch.setattr(slope_caps, "whole_slope_caps", no_clip)
    query = gradient(clip=0.25)
    return any(abs(int(query.integers(data(x))[0])) > query.bound for x in (1.0, -1.0, 1e300))


@bug
def rounding_that_grows_a_norm(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Rounding away from zero after clipping lengthens rows beyond the bound."""
    rows = np.full((1, 7), 1.0) / math.sqrt(7)
    steps = rows * 2**ROW_BITS
    whole = [int(v) for v in (np.ceil(steps) if planted else np.trunc(steps)).ravel()]
    if not planted:  # the library's own rows
        from discreet.data.steps import chunks

        (whole,) = (
            [int(v) for v in part[0]]
            for block in in_memory(rows, np.zeros(1), RowSpec(7, 1.0)).map_blocks(lambda b: b)
            for _, part in chunks(block)
        )
    return sum(v * v for v in whole) > 4**ROW_BITS


@bug
def mean_over_the_true_number_of_rows(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Under add-remove n is private. A sum over n is exact in how it scales the noise: one row shows in the grid."""
    query, mechanism = gradient(), Gaussian(2.0)

    def mean(rows: Any, bits: Bits) -> float:
        return float(mechanism.perturb(query.integers(rows), query, bits)[0]) / (len(rows) if planted else 4)

    bits = Bits.seeded(2)
    one, two = data(1.0, 1.0, 1.0), data(1.0, 1.0)
    grids = [query.grid / (len(rows) if planted else 4) for rows in (one, two)]
    outputs = np.array([mean(one, bits) for _ in range(300)])
    return bool((np.rint(outputs / grids[1]) * grids[1] != outputs).mean() > 0.1)


@bug
def reused_seed(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """The same noise on two releases: their difference is exact."""
    fresh = Bits.secure()
    measurement = Noisy(gradient(), Gaussian(50.0))
    answers = [
        float(measurement.sample(rows, Unit("add-remove"), Bits.seeded(7) if planted else fresh)[0])
        for rows in (data(1.0), data())
    ]
    return abs(answers[0] - answers[1] - 1.0) < 1e-4  # noise of its own would come this close once in 10⁶ times


@bug
def charge_after_sampling(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A run that dies between sampling and charging has been paid for only if the charge came first."""
    if planted:

        def late(self: Vault, measurement: Any, *, note: str = "") -> Any:
            answer = measurement.sample(self._Vault__data, self.unit, self._Vault__bits)  # type: ignore[attr-defined]
            self.ledger.charge(measurement.event(self.unit), self.unit, note=note, protective=self.protective)
            return answer

        patch.setattr(Vault, "release", late)

    @dataclass(frozen=True)
    class Dies:
        def event(self, unit: Unit) -> events.Event:
            return events.Gaussian(1.0)

        def sample(self, rows: Any, unit: Unit, bits: Bits) -> Any:
            raise KeyboardInterrupt  # the answer is out, and the process is killed

        def blank(self) -> float:
            return 0.0

    ledger = Ledger()
    with pytest.raises(KeyboardInterrupt):
        Vault(data(1.0), Unit("add-remove"), ledger, Bits.seeded(0)).release(Dies())
    return len(ledger.history()) == 0


@bug
def poisson_accounting_for_fixed_batches(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A batch of fixed size, accounted as if each row had tossed its own coin: less than what it costs."""
    if planted:
        patch.setattr(FixedSizeSampling, "event", lambda self, inner, unit: events.Poisson(self.batch / self.n, inner))
    sampling, unit = FixedSizeSampling(10, 100), Unit("replace-one")
    done = events.Repeat(events.FixedSize(10, 100, events.Gaussian(1.0)), 50)
    charged = events.Repeat(sampling.event(events.Gaussian(1.0), unit), 50)
    return charged != done and epsilon(charged, 1e-5, unit).upper != epsilon(done, 1e-5, unit).upper


@bug
def a_batch_without_amplification_claimed_as_sampled(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """All rows in every batch, and the event of a small sampling rate: the attack proves more than is claimed."""
    sampling = PoissonSampling(0.05)
    if planted:
        patch.setattr(PoissonSampling, "draw", lambda self, rows, bits: rows)
    measurement = Noisy(gradient(), Gaussian(1.0), sampling)
    unit = Unit("add-remove")
    claimed = epsilon(measurement.event(unit), DELTA, unit).upper

    def release(rows: Any, bits: Bits) -> float:
        return float(measurement.sample(rows, unit, bits)[0])

    return attack(release, data(1.0), data(), 1.0) > claimed


@bug
def forgotten_number_of_steps(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A run of many releases, charged as one."""
    if planted:
        patch.setattr("discreet.vault.compose", lambda plan: plan[0])
    ledger, steps, noise = Ledger(), 20, 4.0
    problem = Problem(ROWS, Logistic(), 3.0)
    Vault(data(1.0, 0.5, -1.0), Unit("add-remove"), ledger, Bits.seeded(0)).run(
        Descent(noise, steps, 1.0, Sgd(0.1)), problem
    )
    (charge,) = ledger.history()
    spent = epsilon(charge.event, 1e-6, "add-remove").upper
    return spent < epsilon(events.Gaussian(noise / math.sqrt(steps)), 1e-6, "add-remove").lower


@bug
def noise_in_floating_point(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Outputs on D that no noise gives on D'."""
    query, generator = gradient(), np.random.default_rng(3)
    if planted:

        def floats(self: Gaussian, integers: Any, query: Any, bits: Any) -> Any:
            exact = query.grid * integers
            return exact + generator.normal(0.0, self.noise_multiplier * query.bound * query.grid, integers.shape)

        patch.setattr(Gaussian, "perturb", floats)
    bits = Bits.seeded(4)
    outputs = np.array([Gaussian(1.0).perturb(query.integers(data(1.0)), query, bits)[0] for _ in range(500)])
    return bool((np.rint(outputs / query.grid) * query.grid != outputs).any())


@bug
def halved_noise(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Less noise than the event says."""
    if planted:
        patch.setattr("discreet.mechanisms.laplace.scale_in_steps", lambda noise, query: noise * query.bound / 2)
    measurement, unit = Noisy(RowCount(), Laplace(1.0)), Unit("add-remove")

    def release(rows: Any, bits: Bits) -> float:
        return float(measurement.sample(rows, unit, bits))

    return attack(release, data(1.0, 1.0, 1.0), data(1.0, 1.0), 3.5) > 1.0


@bug
def one_row_accounted_where_a_person_owns_five(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Noise for one row protects a row; a person with five rows needs five times as much."""
    unit = Unit("add-remove", 5)
    noise = dp.accounting.calibrate(events.Gaussian, 1.0, DELTA, Unit("add-remove") if planted else unit)
    measurement = Noisy(gradient(), Gaussian(noise))

    def release(rows: Any, bits: Bits) -> float:
        return float(measurement.sample(rows, unit, bits)[0])

    return attack(release, data(*[1.0] * 5), data(), noise + 2.5) > 1.0


@bug
def bounds_from_the_data(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Rows scaled by the longest of them: one row changes what all others contribute."""
    query = gradient()

    def answer(*xs: float) -> int:
        longest = max(map(abs, xs)) if planted else 1.0
        return int(query.integers(data(*(x / longest for x in xs)))[0])

    return abs(answer(1.0, 1.0, 1.0, 1.0, 100.0) - answer(1.0, 1.0, 1.0, 1.0)) > query.bound


@bug
def optimistic_deviation_from_the_plan(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A solver that, having seen an answer, asks for a sharper one than it rehearsed."""

    @dataclass(frozen=True)
    class Greedy:
        def steps(self, problem: Problem) -> Any:
            first = yield Noisy(gradient(), Gaussian(4.0))
            yield Noisy(gradient(), Gaussian(0.01 if np.any(first) else 4.0))
            return np.zeros(1)

    if planted:  # a vault that does not compare requests with what was charged
        patch.setattr("discreet.vault.PlanViolation", _Ignored)
        patch.setattr(events.Gaussian, "__eq__", lambda self, other: True)
        patch.setattr(events.Gaussian, "__hash__", lambda self: 0)
    ledger = Ledger()
    vault = Vault(data(1.0), Unit("add-remove"), ledger, Bits.seeded(0))
    try:
        vault.run(Greedy(), Problem(ROWS, Squared(), 1.0))
    except dp.errors.PlanViolation:
        return False
    return True


def _cells_of_the_csv_module(block: bytes, separator: str, slots: Any, columns: int) -> Any:
    rows = list(csv.reader(block.decode().splitlines(keepends=True), delimiter=separator))
    cells = [row[0] if row else "" for row in rows]
    return place_cells("".join(cell.replace("\n", " ") + "\n" for cell in cells).encode(), separator, slots, columns)


@bug
def quotes_that_span_lines(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """One person's open quote makes a single cell of all later lines: their rows leave the sum with that one line."""
    if planted:
        patch.setattr("discreet.data.tokens.place_cells", _cells_of_the_csv_module)
    encoder, query = Encoder(dp.Schema({"x": dp.Numeric(-1, 1, encoding="linear")})), gradient()

    def answer(*lines: str) -> int:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "people.csv"
            file.write_text("\n".join(["x", *lines, ""]))
            rows = encoder.transform(read_table(file))
        return int(query.integers(in_memory(rows, -np.ones(len(rows)), ROWS))[0])

    return abs(answer(*"11111") - answer("1", '"', *"111")) > Unit("replace-one").sensitivity(query.bound)


@bug
def a_null_that_stands_for_somebody_elses_value(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Arrow's own conversion reads a null of a dictionary column as the dictionary's last value."""
    if planted:
        patch.setattr("discreet.data.cells._from_arrow", lambda column: column.to_numpy())
    column = dp.Categorical(["clerk", "nurse"])

    def second_row(*values: str | None) -> int:
        table = as_table(pa.table({"job": pa.array(values).dictionary_encode()}))
        return int(column.read(table["job"])[1])

    return second_row("clerk", None) != second_row("nurse", None)


@bug
def rows_that_their_owner_can_write(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A row is verified once and summed at every step: if it is not a copy, it may have grown in between."""
    X, query = np.ones((1, 1)), gradient()
    held = in_memory(X, -np.ones(1), ROWS, owned=planted)
    query.integers(held)
    X[0, 0] = 1e3
    return abs(int(query.integers(held)[0])) > query.bound


@bug
def a_ledger_that_forgets_its_budget_with_its_file(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """The file is deleted after 0.9 of a budget of 1 was spent: a fresh file has no budget, and admits anything."""
    if planted:  # what was seen is not compared with what is found
        transaction = SQLiteStore.transaction
        patch.setattr(SQLiteStore, "transaction", lambda self, *, write, create: transaction(self, write=write))
        patch.setattr(OpenBook, "_require", lambda *arguments: None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "budget.db"
        ledger = Ledger(path, epsilon=1.0, delta=1e-6, adjacency="replace-one")
        ledger.charge(events.PureDP(0.9), "replace-one")
        ledger = pickle.loads(pickle.dumps(ledger))  # what it had read stays behind; what it had seen goes with it
        path.unlink()
        try:
            ledger.charge(events.PureDP(50.0), "replace-one")
        except dp.errors.LedgerUnavailable:
            return False
    return True


@bug
def a_charge_paid_under_a_second_name(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A writer died under one name of a file. Its journal undoes what others have paid under the file's other name."""
    if planted:
        patch.setattr(SQLiteStore, "_file", lambda self: (0, 0) if self.path.exists() else None)
    with tempfile.TemporaryDirectory() as folder:
        path, crashed, second = (Path(folder) / name for name in ("budget.db", "crashed.db", "second.db"))
        Ledger(path, epsilon=1.0, delta=1e-6, adjacency="replace-one")
        shutil.copy(path, crashed)
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("PRAGMA cache_size = 1")
            writer.execute("BEGIN IMMEDIATE")
            for _ in range(50):  # more than the cache holds, so that the journal is complete on disk
                row = ("now", "default", "charge", None, None, "x" * 4000, "")
                writer.execute("INSERT INTO lines VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row)
            shutil.copy(f"{path}-journal", f"{crashed}-journal")  # killed before the first page was written
        os.link(crashed, second)
        try:
            Ledger(second).charge(events.PureDP(0.9), "replace-one")
            return Ledger(crashed).history() == ()
        except dp.errors.LedgerUnavailable:
            return False


@bug
def unprotected_quantiles_as_bounds(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Bounds drawn with a seed are facts about the rows: a fit with them is not private, whatever noise it adds."""
    if planted:
        module = importlib.import_module("discreet.estimators.private_bounds")
        patch.setattr(module, "protected", lambda epsilon, bits: True)
    ages = np.arange(18, 90).repeat(20)
    wide = dp.Schema({"age": dp.Numeric(0, 1000)})
    narrow = dp.private_bounds({"age": ages}, wide, epsilon=1.0, adjacency="replace-one", random_state=0)
    declared = dp.Schema.from_yaml(narrow.to_yaml())
    model = dp.LogisticRegression(1.0, 1e-6, schema=declared, classes=[0, 1]).fit({"age": ages}, ages > 50)
    return bool(model.privacy_.private)


def claims_less_than_is_attained(event: events.Event, unit: Unit, delta: float = 0.0) -> bool:
    """Whether an explicit mechanism on a few rows, whose law is enumerated, loses more than is claimed."""
    try:
        return epsilon(event, delta, unit).upper < attained(event, unit, delta)[0]
    except dp.errors.NotCertifiable:
        return False


@bug
def a_batch_of_all_rows_that_counts_one_of_three(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """All rows are in the batch, and a person's three rows are charged as one."""
    if planted:
        whole = sampling_rules._all_exchanged
        patch.setattr(sampling_rules, "_all_exchanged", lambda event, unit: whole(event, Unit(unit.relation)))
    return claims_less_than_is_attained(events.FixedSize(4, 4, events.Laplace(1.0)), Unit("add-remove", 3))


@bug
def the_worst_part_where_a_person_is_in_two(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Two rows of one person may lie in two parts, and both parts are then charged to that person."""
    if planted:
        patch.setattr(
            histories,
            "_parallel",
            lambda parts, unit: frozenset().union(*(histories._flatten(part, unit) for part in parts)),
        )
    parts = events.Parallel([events.Promise(1.0, 0.0, 2)] * 2)
    return claims_less_than_is_attained(parts, Unit("replace-one", 2))


@bug
def an_exchange_read_as_two_rows_that_come_together(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A promise for two rows that are added together says nothing of one row that is exchanged for another."""
    if planted:
        patch.setattr(
            sampling_rules,
            "exchanged",
            lambda leaf: histories.Leaf(leaf.event, Unit("add-remove", 2 * leaf.unit.rows_per_unit)),
        )
    return claims_less_than_is_attained(events.FixedSize(1, 4, events.Promise(1.0, 0.0, 2)), Unit("add-remove"))


@bug
def answers_of_rows_that_may_be_absent(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Randomised response hides what a row says, not that it says something."""
    if planted:
        patch.setattr(leaf_rules, "require_presence", lambda unit: None)
    return claims_less_than_is_attained(events.RandomizedResponse(1.0), Unit("add-remove"), 0.1)


@bug
def half_the_digits_of_a_small_modulus(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """|1 + x| by log1p of x(2 + x) + y²: an accountant's upper bound falls below what another proves from below,
    or two contours of its own say so first."""

    def by_log1p(self: GaussianPair, c: float, spacing: float, count: int) -> OnContour:
        omega = spacing * np.arange(count)
        decay, turn = self.mu**2 * omega**2 / 2, self.mu**2 * omega * (c + 0.5)
        change = np.expm1(-decay) * np.exp(1j * turn) + (-2 * np.sin(turn / 2) ** 2 + 1j * np.sin(turn))
        x, y = change.real, change.imag
        logs = np.maximum(0.5 * np.log1p(np.maximum(x * (2 + x) + y * y, -1.0)), -600.0) + 1j * np.arctan2(y, 1 + x)
        slips = 2.0**-51 * (np.abs(logs.real) + np.abs(logs.imag))
        return OnContour(self.mu**2 * c * (c + 1) / 2, 0.0, logs, slips, 2.0**-49 * np.minimum(1 + turn, decay + turn))

    if planted:
        patch.setattr(GaussianPair, "on_contour", by_log1p)
    run = events.Compose([events.Repeat(events.Poisson(3.976e-4, events.Gaussian(1.1276)), 3), events.Gaussian(10.89)])
    fourier = epsilon(run, 3.96e-23, "replace-one", method="fourier")
    try:
        return epsilon(run, 3.96e-23, "replace-one", method="contour").upper < fourier.lower
    except Contradiction:
        return True
    except dp.errors.NotCertifiable:
        return False


@bug
def accountants_that_disagree_are_intersected(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """One of two accountants is wrong, and the lower of the two upper bounds is what is claimed."""
    run = events.Compose([events.Repeat(events.Poisson(0.01, events.Gaussian(1.0)), 50), events.Gaussian(10.0)])
    honest = epsilon(run, 1e-6, "replace-one")
    patch.setattr(Contour, "epsilon", lambda self, delta: Bounds(0.4 * honest.lower, 0.5 * honest.lower))
    if planted:
        patch.setattr(
            "discreet.accounting.composed.meet", lambda one, two, what: Bounds(0.0, min(one.upper, two.upper))
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the disagreement
        return curve(run, "replace-one").upper(1e-6) < honest.lower


@bug
def so_little_noise_that_it_overflows_to_no_loss(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A guard against overflow that takes a mean moved by 1e152 deviations for δ = 0."""
    if planted:
        honest = gaussian.log_delta
        patch.setattr(gaussian, "_LARGEST_MU", math.inf)
        patch.setattr(
            gaussian, "log_delta", lambda e, mu: (-math.inf, 0.0) if e / mu + mu / 2 > 1e150 else honest(e, mu)
        )
    return epsilon(events.Gaussian(1e-152), 1e-6, "replace-one").upper < 1.0


@bug
def rows_of_a_person_that_are_declared_and_not_bounded(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """Three rows a person are certified, and a person with a thousand moves the sum a thousand times."""
    if planted:
        patch.setattr(Persons, "slots", lambda self, bits: np.arange(len(self)))
    owner, unit = np.repeat(np.arange(5), 1000), Unit("add-remove", 3, enforced=True)
    sums = []
    for people in (5, 4):
        some = owner < people
        rows, persons = data(*np.ones(int(some.sum()))), Persons(owner[some], Person(3))
        measurement = Noisy(gradient(), Gaussian(1e-3))
        sums.append(float(Vault(rows, unit, Ledger(), Bits.seeded(1), persons).release(measurement)[0]))
    return abs(sums[0] - sums[1]) > unit.sensitivity(1.0) + 0.1


@bug
def which_rows_of_a_person_take_part_is_decided_by_what_is_in_them(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """The largest values of all are kept: one person's many rows decide which rows of others there is room for."""
    owner, values = np.repeat(np.arange(4), [2, 2, 2, 40]), np.concatenate([np.full(6, 0.2), np.full(40, 1.0)])
    if planted:

        def largest(self: Persons, bits: Bits) -> Any:  # two rows a person in all, and not of each
            return np.argsort(-values[: len(self)], kind="stable")[: 2 * self.count]

        patch.setattr(Persons, "slots", largest)
    totals = []
    for people in (4, 3):
        some = owner < people
        rows, persons = data(*values[some]), Persons(owner[some], Person(2))
        vault = Vault(rows, Unit("add-remove", 2, enforced=True), Ledger(), Bits.seeded(1), persons)
        totals.append(float(vault.release(Noisy(gradient(), Gaussian(1e-3)))[0]))
    return abs(totals[0] - totals[1]) > 2.1


@bug
def one_charge_for_the_releases_of_two_processes(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """A forked process has the run that was charged, and goes through its plan once more with noise of its own."""
    if planted:
        patch.setattr("discreet.vault.os.getpid", lambda: 1)
    unit, measurement = Unit("add-remove"), Noisy(gradient(), Gaussian(2.0))
    vault = Vault(data(1.0), unit, Ledger(), Bits.secure())
    run = vault.open([measurement.event(unit)], Payment("one release"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside threads
        child = os.fork()
    if child == 0:
        try:
            run.answer(measurement)
        except PlanViolation:
            os._exit(0)
        os._exit(1)
    run.answer(measurement)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@bug
def a_worker_that_hides_the_scaler_before_it(planted: bool, patch: pytest.MonkeyPatch) -> bool:
    """In a thread of scikit-learn the pipeline that standardised rows is out of sight: the fit looks private."""
    from joblib import parallel_config
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if planted:
        patch.setattr("discreet.estimators.callers._worker", lambda: "")
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1])
    with warnings.catch_warnings(), parallel_config("threading", n_jobs=2):
        warnings.simplefilter("ignore")
        rest = make_pipeline(StandardScaler(), OneVsRestClassifier(model, n_jobs=2)).fit(X, np.arange(60) % 3)[-1]
    return any(one.privacy_.private for one in rest.estimators_)


class _Ignored(Exception):
    """Stands in for a refusal that was taken out."""


@pytest.mark.parametrize("name", list(CHECKS))
def test_the_check_is_silent_on_the_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not CHECKS[name](False, monkeypatch)


@pytest.mark.parametrize("name", list(CHECKS))
def test_the_check_fires_on_the_planted_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CHECKS[name](True, monkeypatch)
