"""scikit-learn estimators: thin shells around vault and solvers."""

from discreet.estimators.classifiers import LinearSVC, LogisticRegression
from discreet.estimators.mean import MeanEstimator
from discreet.estimators.persistence import load
from discreet.estimators.quantile import quantile
from discreet.estimators.regressors import HuberRegression, LinearRegression, PoissonRegression, QuantileRegression
from discreet.estimators.targets import PrivacyWarning

__all__ = [
    "HuberRegression",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MeanEstimator",
    "PoissonRegression",
    "PrivacyWarning",
    "QuantileRegression",
    "load",
    "quantile",
]
