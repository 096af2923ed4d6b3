"""Patches of convolutions, and the sums in floating point: equal to those of single examples, whatever the layout."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from discreet.torch import bookkeeping
from discreet.torch.convolutions import convolution_gradients, is_compiled
from discreet.torch.engine import Clip, ExampleGradients
from discreet.torch.patches import patches

NEAR = 2e-4
"""Four slots of length ½; vectors of length 32000 and 16777 become integers: 4 · ½ · (½/32000 + 1/16777) at most."""


def clipped_sums(model: nn.Module, x: Tensor, present: Tensor, exact: bool) -> list[Tensor]:
    engine = ExampleGradients(model, Clip(0.5), slots=len(x), grid=2.0**30, exact=exact)
    with engine.watch():
        loss = model(x).reshape(len(x), -1).square().sum(1)
    return [total.double() / engine.grid for total in engine.clipped_sum(loss, present)]


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("outputs", [3, 4, 10])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("several", [1, 2])
def test_compiled_gradients_of_kernels_are_those_of_each_example(
    width: int, kind: torch.dtype, outputs: int, groups: int, several: int
) -> None:
    torch.manual_seed(0)
    kernel = torch.randn(groups * outputs, 2, 3, width, dtype=kind, requires_grad=True)
    x = torch.randn(3 * several, 2 * groups, 12, 13, dtype=kind)
    y = functional.conv2d(x, kernel, None, (2, 3), (1, 2), 1, groups)
    g, found = torch.randn_like(y), torch.empty(3, *kernel.shape, dtype=kind)
    assert is_compiled(x, (1, 1))
    convolution_gradients(x, g, (2, 3), (1, 2), groups, found)
    for slot in range(3):
        part = slice(slot * several, (slot + 1) * several)
        (expected,) = torch.autograd.grad(y[part], kernel, g[part], retain_graph=True)
        torch.testing.assert_close(found[slot], expected, rtol=1e-4, atol=1e-4)


def test_compiled_gradients_of_kernels_over_sequences() -> None:
    x, g, found = torch.randn(2, 3, 7), torch.randn(2, 5, 3), torch.empty(2, 5, 3, 3)
    convolution_gradients(x, g, (2,), (0,), 1, found)
    expected = torch.einsum("npt,nctk->npck", g, x.unfold(2, 3, 2))
    torch.testing.assert_close(found, expected)


def test_patches_of_sequences_volumes_and_kernels_with_holes_are_products_that_give_the_convolution() -> None:
    for dims, dilation in ((1, 1), (1, 2), (2, 2), (3, 1)):
        shape = (6, 7, 8)[:dims]
        x, weight = torch.randn(2, 3, *shape).double(), torch.randn(4, 3, *(2,) * dims).double()
        convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[dims - 1]
        expected = convolve(x, weight, None, 2, 1, dilation).flatten(2).transpose(1, 2)
        found = patches(x, (2,) * dims, (2,) * dims, (1,) * dims, (dilation,) * dims) @ weight.flatten(1).T
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("times", [63, 64, 130])
def test_lengths_over_a_long_time_axis_are_those_of_the_gradients(times: int) -> None:
    a, g = torch.randn(3, times, 5), torch.randn(3, times, 4)
    expected = (g.transpose(1, 2).double() @ a.double()).square().sum((1, 2))
    torch.testing.assert_close(bookkeeping._inner_products(a, g).double(), expected, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("outputs", [2, 3, 15, 16])
@pytest.mark.parametrize("times", [1, 70])
def test_sums_in_floats_are_near_the_exact_ones_and_without_slots_that_are_not_finite(outputs: int, times: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(200, outputs), nn.Tanh(), nn.Linear(outputs, 200))
    x, present = torch.randn(5, times, 200), torch.tensor([True, True, True, True, False])
    x[2, 0, 3] = torch.nan
    for exact, found in zip(clipped_sums(model, x, present, True), clipped_sums(model, x, present, False), strict=True):
        assert found.isfinite().all()
        torch.testing.assert_close(found, exact, rtol=0.0, atol=NEAR)


def test_a_table_and_a_convolution_add_nothing_of_slots_that_are_not_finite() -> None:
    torch.manual_seed(0)
    x, present = torch.randn(4, 2, 9, 9), torch.ones(4, dtype=torch.bool)
    x[1] = torch.inf
    models: list[nn.Module] = [nn.Conv2d(2, 3, 3), nn.Sequential(nn.GroupNorm(1, 2), nn.Conv2d(2, 3, 3, groups=1))]
    for model in models:
        exact, found = (clipped_sums(model, x, present, kind) for kind in (True, False))
        assert all(total.isfinite().all() for total in found)
        for one, other in zip(found, exact, strict=True):
            torch.testing.assert_close(one, other, rtol=0.0, atol=NEAR)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("rows", [2048, 1030, 1025])
@pytest.mark.parametrize("shape", [(20, 5), (4, 3), (12, 40)])
def test_many_rows_with_few_columns_are_cut_into_parts(rows: int, shape: tuple[int, int], exact: bool) -> None:
    torch.manual_seed(1)
    layer, x = nn.Linear(*shape), torch.randn(rows, shape[0])
    present = torch.rand(rows) < 0.7
    found = clipped_sums(layer, x, present, exact)
    g = 2 * layer(x).detach()
    lengths = g.norm(dim=1) * (x.square().sum(1) + 1).sqrt()
    g *= (present * (0.5 / lengths).clamp(max=1.0) / 0.5)[:, None]  # in units of the bound
    for one, other in zip(found, (g.T @ x, g.sum(0)), strict=True):
        torch.testing.assert_close(one, other.double(), rtol=1e-3, atol=5e-3)
