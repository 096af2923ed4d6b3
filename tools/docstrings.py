"""Docstrings as the reference shows them: an ``Example:`` of the console is shown as one, not as quoted text."""

from __future__ import annotations

from typing import Any

import griffe


class ConsoleExamples(griffe.Extension):
    """Reads our ``Example:`` as the section ``Examples:`` of Google's style, which knows prompts and answers."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called with each class, function and module."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
