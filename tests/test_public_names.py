"""The names that users rely on, what loading the library costs, and that the README tells the truth."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import discreet as dp

ROOT = Path(__file__).parents[1]

ESTIMATORS = [
    "LogisticRegression",
    "LinearRegression",
    "PoissonRegression",
    "HuberRegression",
    "LinearSVC",
    "Lasso",
    "SparseLinearRegression",
    "QuantileRegression",
    "MeanEstimator",
]
EVENTS = {
    "Gaussian": ["noise_multiplier"],
    "Laplace": ["noise_multiplier"],
    "DiscreteGaussian": ["noise_multiplier"],
    "DiscreteLaplace": ["noise_multiplier"],
    "RandomizedResponse": ["epsilon"],
    "Selection": ["epsilon"],
    "PureDP": ["epsilon"],
    "ApproxDP": ["epsilon", "delta"],
    "ZCDP": ["rho"],
    "Poisson": ["rate", "event"],
    "FixedSize": ["batch", "n", "event"],
    "Allocation": ["batches", "event"],
    "Repeat": ["event", "times"],
    "Compose": ["events"],
    "Parallel": ["events"],
    "PrivateSelection": ["event", "mean"],
}
ACCOUNTING = {
    "epsilon": ["event", "delta", "adjacency"],
    "delta": ["event", "epsilon", "adjacency"],
    "curve": ["event", "adjacency"],
    "tradeoff": ["event", "adjacency"],
    "calibrate": ["make_event", "epsilon", "delta", "adjacency"],
}


def parameters(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize("name", dp.__all__)
def test_every_exported_name_is_there(name: str) -> None:
    assert getattr(dp, name) is not None
    assert name in dir(dp)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        dp.nonsense  # noqa: B018


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_take_the_documented_parameters(name: str) -> None:
    taken = parameters(getattr(dp, name))
    assert [p.name for p in taken[:2]] == ["epsilon", "delta"]
    assert (taken[0].default, taken[1].default) == (1.0, None)
    assert all(p.kind is p.KEYWORD_ONLY for p in taken[2:])
    defaults = {p.name: p.default for p in taken[2:]}
    common = {"adjacency": "replace-one", "rows_per_unit": 1, "n_public": None, "ledger": None, "random_state": None}
    linear = {"solver": "auto", "solver_options": None, "schema": None, "row_norm": None, "fit_intercept": True}
    expected = common | ({"row_norm": None} if name == "MeanEstimator" else linear)
    if name in ("LogisticRegression", "LinearSVC"):
        expected["classes"] = None
    elif name != "MeanEstimator":
        expected["target_bounds"] = None
    assert {key: defaults[key] for key in expected} == expected


def test_the_search_takes_the_documented_parameters() -> None:
    taken = parameters(dp.PrivateSearchCV)
    assert [p.name for p in taken[:2]] == ["estimator", "param_grid"]
    assert all(p.kind is p.KEYWORD_ONLY for p in taken[2:])
    assert {"epsilon", "delta", "adjacency", "validation", "n_public", "ledger", "random_state"} <= {
        p.name for p in taken
    }


@pytest.mark.parametrize(("name", "expected"), EVENTS.items())
def test_events_take_the_documented_parameters(name: str, expected: list[str]) -> None:
    taken = parameters(getattr(dp.events, name))
    assert [p.name for p in taken[: len(expected)]] == expected
    required = [p.name for p in taken if p.default is p.empty]
    assert set(required) <= set(expected)


@pytest.mark.parametrize(("name", "expected"), ACCOUNTING.items())
def test_accounting_takes_the_documented_parameters(name: str, expected: list[str]) -> None:
    taken = parameters(getattr(dp.accounting, name))
    assert [p.name for p in taken[: len(expected)]] == expected
    assert all(p.default is p.empty for p in taken[: len(expected)])  # the relation has no default: it must be said
    found = dp.accounting.epsilon(dp.events.Gaussian(2.0), 1e-6, "replace-one")
    assert 0 < found.lower <= found.upper


def test_noise_schema_ledger_and_certificate() -> None:
    assert [p.name for p in parameters(dp.noise.discrete_gaussian)[:2]] == ["sigma", "size"]
    assert [p.name for p in parameters(dp.noise.discrete_laplace)[:2]] == ["scale", "size"]
    assert parameters(dp.Ledger)[0].name == "url"
    schema = dp.Schema({"age": dp.Numeric(17, 90), "job": dp.Categorical(["clerk", "nurse"])})
    assert set(schema) == {"age", "job"}
    assert callable(dp.Schema.from_yaml)
    for name in ("epsilon", "delta", "event"):
        assert name in dp.Certificate.__dataclass_fields__
    assert callable(dp.Certificate.to_json)
    assert isinstance(dp.Certificate.adjacency, property)


HEAVY = ("numba", "sklearn", "scipy", "pandas", "polars", "torch", "matplotlib", "typer", "rich", "narwhals")


def run(program: str, folder: Path | str = ".") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, cwd=folder, capture_output=True, text=True
    )


def test_importing_the_library_loads_nothing_heavy() -> None:
    program = f"import sys, discreet; print([m for m in {HEAVY} if m in sys.modules])"
    assert run(program).stdout.strip() == "[]"


def test_the_same_check_sees_what_an_estimator_loads() -> None:
    program = f"import sys, discreet; discreet.LogisticRegression; print([m for m in {HEAVY} if m in sys.modules])"
    assert "sklearn" in run(program).stdout


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/tutorial.md", "docs/models.md"]
    + [f"docs/how-to/{name}.md" for name in ("scikit-learn", "solvers", "persons", "evaluate", "check", "show")],
)
def test_python_on_the_page_runs(page: str, tmp_path: Path) -> None:
    found = blocks(page, "python")
    assert found
    done = run("\n".join(found), tmp_path)
    assert done.returncode == 0, done.stderr


def commands(page: str) -> list[tuple[list[str], list[str]]]:
    """(command and the word after it, options) of each line that calls discreet."""
    shell = "\n".join(blocks(page, "sh") + blocks(page, "console"))
    lines = re.findall(r"^(?:\$ )?discreet ([a-z]+)(.*)$", shell, flags=re.MULTILINE)
    return [([name, *rest.split()[:1]], re.findall(r"--[a-z][a-z0-9-]*", rest.split("#")[0])) for name, rest in lines]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tutorial.md",
        *(
            f"docs/how-to/{name}.md"
            for name in (
                "account-from-the-shell",
                "budget",
                "certificate",
                "check",
                "evaluate",
                "files",
                "plan",
                "serve",
                "show",
                "solvers",
            )
        ),
    ],
)
def test_commands_on_the_page_exist_with_their_options(page: str) -> None:
    import typer.main

    from discreet.cli import app

    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert commands(page)
    for (name, *inner), options in commands(page):
        command = known[name]
        if hasattr(command, "commands"):  # such as ledger, whose commands have the options
            command = command.commands[inner[0]]
        taken = {option for parameter in command.params for option in parameter.opts}
        assert set(options) <= taken
