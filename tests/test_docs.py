"""The documentation is complete and as new as what it shows."""

from __future__ import annotations

import sys
from pathlib import Path

import discreet as dp

ROOT = Path(__file__).parents[1]


def test_the_picture_shows_the_figures_that_are_stored() -> None:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import picture
    finally:
        sys.path.remove(str(ROOT / "bench"))
    mark = f"figures {picture.digest(picture.figures())}"
    assert mark in picture.PICTURE.read_text(encoding="utf-8"), "run python bench/picture.py"


def test_every_model_has_its_place() -> None:
    import discreet.estimators as room

    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    reference = (ROOT / "docs" / "reference" / "estimators.md").read_text(encoding="utf-8")
    models = [name for name in room.__all__ if name[0].isupper() and name != "PrivacyWarning"]
    assert [name for name in models if f"[`{name}`]" not in page] == []
    assert [name for name in room.__all__ if f".{name}\n" not in reference] == []


def test_every_public_name_has_its_place_in_the_reference() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    names = [name for name in dp.__all__ if name != "__version__"]
    assert [name for name in names if f".{name}\n" not in pages] == []


def test_pages_ask_nothing_of_the_network() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "http" not in settings
    assert "font: false" in settings
