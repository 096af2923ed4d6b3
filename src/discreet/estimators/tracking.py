"""A fitted model and its certificate as a run of MLflow."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from discreet.errors import InvalidInput
from discreet.report.card import model_card
from discreet.report.certificate import Certificate

__all__ = ["log_to_mlflow"]


def log_to_mlflow(model: Any, folder: str = "discreet") -> None:
    """Log a fitted model, its certificate and its model card to the active run of MLflow, or to a new one.

    Only what was released is logged: the model's file, the certificate as JSON and as a page, the card, and as
    parameters and tags the guarantee. Nothing is read from the data.

    Args:
        model: a fitted estimator of this library.
        folder: where the files go among the run's artifacts.

    Raises:
        InvalidInput: the model is not fitted, or MLflow is not installed (``pip install 'discreet[mlflow]'``).
    """
    certificate = getattr(model, "privacy_", None)
    if not isinstance(certificate, Certificate):
        raise InvalidInput(f"{type(model).__name__} has no certificate: fit it first.")
    try:
        import mlflow
    except ModuleNotFoundError:
        raise InvalidInput("MLflow is not installed: pip install 'discreet[mlflow]'.") from None
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        model.save(place / "model.npz")
        (place / "model.certificate.json").write_text(certificate.to_json() + "\n", encoding="utf-8")
        (place / "certificate.html").write_text(certificate.to_html(), encoding="utf-8")
        (place / "card.md").write_text(model_card(certificate), encoding="utf-8")
        mlflow.log_artifacts(str(place), artifact_path=folder)
    mlflow.log_params(
        {
            "discreet.model": type(model).__name__,
            "discreet.solver": certificate.solver,
            "discreet.epsilon": certificate.epsilon,
            "discreet.delta": certificate.delta,
            "discreet.unit": str(certificate.unit),
        }
    )
    mlflow.set_tags({"discreet.private": str(certificate.private).lower(), "discreet.version": certificate.version})
    if math.isfinite(certificate.epsilon):
        mlflow.log_metrics({"epsilon": certificate.epsilon, "delta": certificate.delta})
