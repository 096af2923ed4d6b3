"""The tutorials of docs/torch run as they stand, on few rows; so does the how-to's loop."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
NEEDED = {"lightning": "pytorch_lightning", "hugging_face": "accelerate"}
"""Packages that a page needs beside torch."""
PAGES = sorted((Path(__file__).parents[2] / "docs" / "torch").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.stem in NEEDED:
        pytest.importorskip(NEEDED[page.stem])
        warnings.simplefilter("ignore")  # what these packages say of themselves; pytest restores the filters
        warnings.filterwarnings("error", module="discreet")
    monkeypatch.chdir(tmp_path)  # some write files
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    few, count = re.subn(r"^n, epochs = .*$", "n, epochs = 120, 1", code, flags=re.MULTILINE)
    assert count == 1
    exec(compile(few, str(page), "exec"), {"__name__": page.stem})
    assert "ε = " in capsys.readouterr().out
