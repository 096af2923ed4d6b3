"""Intervals hold the truth as often as they say: the quick run of ``bench/intervals.py``, which states its error."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


def test_quick_coverage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Seeds are fixed; 60 runs of three models, each wrong with probability below 4e-4 were coverage as stated."""
    monkeypatch.syspath_prepend(str(BENCH))
    import intervals

    intervals.quick()
    assert len(capsys.readouterr().out.splitlines()) == 3
    sys.modules.pop("intervals")


def test_intervals_that_are_too_narrow_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: intervals of half the width hold 67 %, and the quick run says so."""
    monkeypatch.syspath_prepend(str(BENCH))
    import intervals

    monkeypatch.setattr(intervals, "ndtri", lambda p: 0.98)
    with pytest.raises(AssertionError, match="not held"):
        intervals.quick()
    sys.modules.pop("intervals")
