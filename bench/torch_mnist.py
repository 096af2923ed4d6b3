"""MNIST by a linear model on scattering features, trained privately: test accuracy at ε = 1 and 3.

    python bench/torch_mnist.py --data FOLDER --seeds 5          # FOLDER holds the four idx files, gzipped

Features are a public function of one image: its slant is taken out by its own moments (LeCun et al. 1998), then wavelet
scattering of two scales and eight angles (Bruna and Mallat 2013; for private learning, Tramèr and Boneh 2021) is
normalised in groups of channels of the image itself. So no row is seen before the training, and no budget is spent on
them. δ = 1e-5, add-remove, 60 000 rows declared, constant steps.

Settings were chosen by the first 50 000 training images, scored on the other 10 000, in simulations of this training
with floating-point noise; ``--held-out`` confirms the choice, which is not charged to ε. Taking out the slant gained
0.35 points at ε = 3 and 0.42 at ε = 1. Learning rates of 2 to 10 were compared over three seeds: ε = 1 is flat from 3
to 7, ε = 3 gains up to 10, which it had before. By one or two seeds bounds of 3 and 10, decreasing steps, averages of
weights, 9 and 81 groups, powers and logarithms, weights of the two orders, and batches of 8192 for 40 epochs gained no
more than seeds differ, about 0.05. The test set was looked at once with these settings. Without deslanting, test
accuracies had been seen before: at ε = 3 98.29, 98.64, 98.66 (constant steps) and 98.40 % (decreasing ones), at ε = 1
97.90, 98.06 and 98.11 %. Runs are added to stored ones of the same settings.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import discreet as dp

STORED = Path(__file__).parent / "results" / "torch_mnist.json"
SIZE, ANGLES = 32, 8
GROUPS = 27


def images(folder: Path, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return torch.from_numpy(pixels / np.float32(255)), torch.from_numpy(labels.astype(np.int64))


def deslanted(pixels: torch.Tensor) -> torch.Tensor:
    """Each image centred, and sheared by its own moments until its ink does not lean to a side."""
    places = (torch.arange(28) + 0.5) / 14 - 1
    ink = pixels.sum((1, 2)).clamp(min=1e-6)
    right, down = pixels.sum(1) @ places / ink, pixels.sum(2) @ places / ink
    x, y = places - right[:, None], places - down[:, None]
    covariance, variance = torch.einsum("nij,ni,nj->n", pixels, y, x), torch.einsum("nij,ni->n", pixels, y * y)
    slant, one, none = covariance / variance.clamp(min=1e-6), torch.ones_like(ink), torch.zeros_like(ink)
    shear = torch.stack([one, slant, right, none, one, down], 1).view(-1, 2, 3)
    grid = torch.nn.functional.affine_grid(shear, [len(pixels), 1, 28, 28], align_corners=False)
    return torch.nn.functional.grid_sample(pixels[:, None], grid, align_corners=False)[:, 0]


# --- scattering -------------------------------------------------------------------------------------------------------


def gabor(sigma: float, angle: float, frequency: float, slant: float) -> np.ndarray:
    """A Gabor filter on the periodic grid, as complex numbers."""
    found = np.zeros((SIZE, SIZE), complex)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    shape = turn @ np.diag([1, slant**2]) @ turn.T / (2 * sigma**2)
    for down in (-2, -1, 0, 1, 2):
        for right in (-2, -1, 0, 1, 2):
            y, x = np.mgrid[down * SIZE : (down + 1) * SIZE, right * SIZE : (right + 1) * SIZE]
            power = -(shape[0, 0] * x * x + 2 * shape[0, 1] * x * y + shape[1, 1] * y * y)
            found += np.exp(power + 1j * frequency * (x * math.cos(angle) + y * math.sin(angle)))
    return found / (2 * math.pi * sigma**2 / slant)


def morlet(scale: int, angle: float) -> torch.Tensor:
    """The Fourier transform of a Morlet wavelet, which has mean zero."""
    sigma, frequency, slant = 0.8 * 2**scale, 3 * math.pi / 4 / 2**scale, 4.0 / ANGLES
    wave, hill = gabor(sigma, angle, frequency, slant), gabor(sigma, angle, 0.0, slant)
    filtered = wave - hill * wave.sum() / hill.sum()
    return torch.from_numpy(np.fft.fft2(filtered).real.astype(np.float32))


def folded(spectrum: torch.Tensor, by: int) -> torch.Tensor:
    """The spectrum of a signal of which every ``by``-th pixel is kept."""
    size = spectrum.shape[-1] // by
    return spectrum.reshape(*spectrum.shape[:-2], by, size, by, size).mean((-4, -2))


def scattering(pixels: torch.Tensor) -> torch.Tensor:
    """[images, 81 · 49] features, each group of channels of an image with mean 0 and variance 1."""
    angles = [(ANGLES // 2 - k - 1) * math.pi / ANGLES for k in range(ANGLES)]
    psi = [torch.stack([morlet(j, a) for a in angles]) for j in (0, 1)]
    low = torch.from_numpy(np.fft.fft2(gabor(1.6, 0.0, 0.0, 1.0).real).real.astype(np.float32))
    half_low = folded(low, 2) * 4

    def smooth(spectrum: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        by = spectrum.shape[-1] // 8
        return torch.fft.ifft2(folded(spectrum * window, by)).real[..., 1:, 1:]  # the seven points inside

    found = []
    for part in pixels.split(256):
        x = torch.fft.fft2(torch.nn.functional.pad(part, (2, 2, 2, 2)))[:, None]
        fine = torch.fft.fft2(torch.fft.ifft2(x * psi[0]).abs())
        coarse = torch.fft.fft2(torch.fft.ifft2(folded(x * psi[1], 2)).abs())
        both = torch.fft.fft2(torch.fft.ifft2(folded(fine[:, :, None] * psi[1], 2)).abs()).flatten(1, 2)
        channels = [smooth(x, low), smooth(fine, low), smooth(coarse, half_low), smooth(both, half_low)]
        features = torch.cat(channels, 1)
        found.append(torch.nn.functional.group_norm(features, GROUPS).flatten(1).half())
    return torch.cat(found)


class Probe(torch.nn.Module):
    """A linear model on features that are kept in half precision."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(features, 10)
        torch.nn.init.zeros_(self.linear.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.float())


# --- training ---------------------------------------------------------------------------------------------------------


def accuracy(
    train: tuple[torch.Tensor, torch.Tensor],
    test: tuple[torch.Tensor, torch.Tensor],
    epsilon: float,
    rate: float,
    options: argparse.Namespace,
) -> tuple[float, float]:
    """(test accuracy, CPU seconds) of one private training."""
    model = Probe(train[0].shape[1])
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    start, loss = time.process_time(), torch.nn.CrossEntropyLoss(reduction="none")
    trainer = dp.torch.privatize(
        model, optimizer, train, epsilon=epsilon, delta=1e-5, epochs=options.epochs, expected_batch=options.batch,
        clip=options.clip, adjacency="add-remove", n_public=len(train[0]),
    )  # fmt: skip
    for batch in trainer:
        trainer.step(loss(model(batch.x), batch.y))
    with torch.no_grad():
        right = torch.cat([model(part).argmax(1) for part in test[0].split(1000)]) == test[1]
    return float(right.float().mean()), time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--epochs", type=float, default=20)
    parser.add_argument("--lr", type=float, nargs="+", default=[5.0, 10.0], help="one for each ε")
    parser.add_argument("--clip", type=float, default=0.1)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--kept", type=Path, help="a file that keeps the features")
    parser.add_argument("--held-out", action="store_true", help="score training images that are left out")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    (pixels, labels), (test_pixels, test_labels) = images(options.data, "train"), images(options.data, "t10k")
    if options.kept and options.kept.exists():
        train_features, test_features = torch.load(options.kept)
    else:
        train_features, test_features = (scattering(deslanted(part)) for part in (pixels, test_pixels))
        if options.kept:
            torch.save((train_features, test_features), options.kept)
    print(f"{train_features.shape[1]} features", flush=True)
    train, test = (train_features, labels), (test_features, test_labels)
    if options.held_out:
        train, test = (train_features[:50000], labels[:50000]), (train_features[50000:], labels[50000:])
    settings: dict[str, Any] = {name: getattr(options, name) for name in ("batch", "epochs", "clip")}
    settings["features"] = "deslanted, scattering"
    for _ in range(options.seeds):
        for epsilon, rate in zip(options.epsilons, options.lr, strict=True):
            found, seconds = accuracy(train, test, epsilon, rate, options)
            print(f"ε = {epsilon:g}: {100 * found:.2f} %, {seconds:.0f} s", flush=True)
            if options.store and not options.held_out:
                store(f"{epsilon:g}", {**settings, "lr": rate}, found)


def store(epsilon: str, settings: dict[str, Any], found: float) -> None:
    """Add a run to those of the same settings; runs of others at this ε are replaced."""
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    row = stored.get(epsilon, {})
    runs = [*(row["accuracy"] if row.get("settings") == settings else []), found]
    stored[epsilon] = {"settings": settings, "mean": round(float(np.mean(runs)), 5), "accuracy": runs}
    STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
