"""Estimators with the interface of scikit-learn: declarations in, a private model and its certificate out."""

from discreet.estimators.checking import check
from discreet.estimators.classifiers import LinearSVC, LogisticRegression
from discreet.estimators.evaluation import evaluate
from discreet.estimators.largest_sums import largest_sums
from discreet.estimators.loading import load
from discreet.estimators.mean import MeanEstimator
from discreet.estimators.private_bounds import private_bounds
from discreet.estimators.quantile import quantile
from discreet.estimators.regressors import (
    HuberRegression,
    Lasso,
    LinearRegression,
    PoissonRegression,
    QuantileRegression,
    SparseLinearRegression,
)
from discreet.estimators.search import PrivateSearchCV
from discreet.estimators.targets import PrivacyWarning

__all__ = [
    "HuberRegression",
    "Lasso",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MeanEstimator",
    "PoissonRegression",
    "PrivacyWarning",
    "PrivateSearchCV",
    "QuantileRegression",
    "SparseLinearRegression",
    "check",
    "evaluate",
    "largest_sums",
    "load",
    "private_bounds",
    "quantile",
]
