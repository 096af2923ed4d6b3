"""A certificate as an entry of the public registry of DP deployments (github.com/opendp/deployments-registry-data)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import yaml

from discreet.report.certificate_facts import (
    Facts,
    bound_facts,
    curve_facts,
    guarantee_facts,
    making_facts,
    mechanism_facts,
    query_facts,
    relation_in_words,
)
from discreet.text import printable

if TYPE_CHECKING:
    from discreet.report.certificate import Certificate

__all__ = ["registry_entry"]

_MISSING = "to be filled in"


def registry_entry(certificate: Certificate) -> str:
    """The entry as YAML, with the fields that the registry's entries of 2026 have.

    What a certificate cannot know, such as the intended use, is marked as to be filled in.
    """
    record = certificate.record
    name, issued = str(record.get("model", certificate.solver)), str(record.get("issued", _MISSING))[:10]
    entry: dict[str, Any] = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{name}-{record.get('dataset', 'data')}".lower()).strip("-"),
        "status": "Draft",
        "tier": 1,
        "deployment": {
            "basic": {
                "name": name,
                "data_curators": [{"data_curator_name": _MISSING, "data_curator_type": _MISSING}],
                "intended_use": _MISSING,
                "data_product_type": "Machine learning model",
                "data_product_region": _MISSING,
                "description": f"Fitted by {certificate.solver} with discreet {certificate.version}.",
                "publication_date": issued,
            },
            "dp_variant": {
                "variant_name": "Pure DP" if certificate.delta == 0 else "Approximate DP",
                "data_domain": _listed([f"dataset {record.get('dataset', _MISSING)}", *_rows(record)]),
                "unprotected_quantities": _listed(certificate.unprotected) or "None known.",
            },
            "privacy_loss": _privacy_loss(certificate),
            "deployment_model": {
                "model_name": "Central",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "The model is computed from the released values alone.",
                "composition": "Certified bounds of the composition of all releases (privacy loss distributions).",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _in_lines(bound_facts(certificate)) or _MISSING,
                "mechanisms": _in_lines(mechanism_facts(certificate) + query_facts(certificate)),
                "justification": _MISSING,
            },
            "administrative": {"sources": _in_lines(making_facts(certificate)), "registry_authors": [_MISSING]},
        },
    }
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)


def _privacy_loss(certificate: Certificate) -> dict[str, Any]:
    unit, rho = certificate.unit, certificate.figures.rho
    metric = {"add-remove": "symmetric distance", "replace-one": "change-one distance"}[unit.relation]
    by = f"{unit}, {'enforced' if unit.enforced else 'declared'}: {relation_in_words(unit)}"
    return {
        "privacy_unit": "User-level" if unit.enforced or unit.rows_per_unit > 1 else "Record-level",
        "privacy_unit_details": f"{by}; {metric} of at most {unit.rows_per_unit}",
        "privacy_parameters": {"epsilon": certificate.epsilon, "delta": certificate.delta}
        | ({} if rho is None else {"rho": rho}),
        "privacy_parameters_details": _parameters(certificate),
    }


def _parameters(certificate: Certificate) -> str:
    if not certificate.private:
        return "NOT PRIVATE: see the certificate."
    return _in_lines(guarantee_facts(certificate) + curve_facts(certificate))


def _rows(record: dict[str, Any]) -> list[str]:
    target, rows = record.get("target"), record.get("rows")
    return ([f"target {target}"] if target else []) + ([f"{rows} rows (public)"] if rows else [])


def _in_lines(facts: Facts) -> str:
    """Facts as a list in Markdown, as the registry shows texts."""
    return _listed(f"{name}: {value}" for name, value in facts)


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {printable(item)}" for item in items)
