"""Draw accuracy against ε beside the peers, from `bench/results/accuracy.json`: docs/images/accuracy.svg.

One panel a data set, relation add-remove; a line is the mean over runs, a band two standard errors on either side.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "accuracy.svg"
PANELS = {
    "adult": "Adult, income\naccuracy in %",
    "RAND, drugs": "RAND health insurance\naccuracy in %",
    "california_housing": "California housing\nR²",
    "sms_spam": "SMS spam\naccuracy in %",
}
LINES = {
    "discreet, add-remove": ("discreet, defaults", "#0b6e4f", "o"),
    "Opacus DP-SGD, best of grid": ("Opacus, tuned on the test set", "#c8553d", "s"),
    "Opacus DP-SGD, one setting": ("Opacus, one setting", "#e0a08f", "s"),
    "diffprivlib, best C": ("diffprivlib, tuned on the test set", "#4a6fa5", "^"),
}

SHOWN_WHOLE = ("discreet, add-remove", "Opacus DP-SGD, best of grid")


def figures() -> dict[str, Any]:
    """What the picture shows: for each panel and line ε, means and standard errors; and the reference lines."""
    sets = json.loads((ROOT / "bench" / "results" / "accuracy.json").read_text())["sets"]
    shown: dict[str, Any] = {}
    for name in PANELS:
        methods, lines = sets[name]["methods"], {}
        for method in LINES:
            if method in methods:
                runs = {float(epsilon): np.array(scores) for epsilon, scores in methods[method]["scores"].items()}
                lines[method] = [
                    [epsilon, round(float(got.mean()), 4), round(float(got.std(ddof=1) / np.sqrt(len(got))), 4)]
                    for epsilon, got in sorted(runs.items())
                    if np.isfinite(epsilon)
                ]
        ceiling = next(iter(methods["without privacy"]["scores"].values()))
        shown[name] = {"lines": lines, "without privacy": round(float(np.mean(ceiling)), 4)}
        if "majority" in sets[name]:
            shown[name]["majority"] = round(sets[name]["majority"], 4)
    return shown


def digest(shown: dict[str, Any]) -> str:
    """A mark of the figures that a picture was drawn from."""
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def draw(shown: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "discreet", "svg.fonttype": "path", "font.size": 10}
    figure, axes = plt.subplots(2, 2, figsize=(8.6, 6.6), layout="constrained")
    figure.patch.set_facecolor("white")
    for axis, (name, title) in zip(axes.flat, PANELS.items(), strict=True):
        panel = shown[name]
        for method, points in panel["lines"].items():
            label, colour, mark = LINES[method]
            epsilon, mean, error = np.array(points).T
            axis.plot(epsilon, mean, color=colour, marker=mark, markersize=4, label=label)
            axis.fill_between(epsilon, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.2, linewidth=0)
        axis.axhline(panel["without privacy"], color="black", linewidth=0.9, linestyle="--", label="without privacy")
        # from the lowest point of ours and of the best peer; lines that leave the picture at the bottom are worse
        seen = [point[1] for method in SHOWN_WHOLE for point in panel["lines"][method]] + [panel["without privacy"]]
        axis.set_ylim(min(seen) - 0.1 * (max(seen) - min(seen)), max(seen) + 0.1 * (max(seen) - min(seen)))
        axis.set_xscale("log")
        axis.set_xticks([0.1, 0.5, 1, 2, 8], ["0.1", "0.5", "1", "2", "8"])
        axis.minorticks_off()
        axis.set_xlabel("ε (smaller is more private)")
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.25)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Description": f"figures {digest(shown)}"})


if __name__ == "__main__":
    found = figures()
    draw(found, PICTURE)
    print(f"{PICTURE.relative_to(ROOT)}: figures {digest(found)[:12]}", file=sys.stderr)
