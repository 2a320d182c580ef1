"""Deep metric learning: train embeddings that retrieve classes never seen in training, and evaluate them.

Names are imported when they are first used, so that `import unseen` and the command line start quickly.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_PACKAGES = (
    "analyses",
    "core",
    "data",
    "evaluation",
    "losses",
    "methods",
    "miners",
    "models",
    "pairs",
    "reports",
    "robust",
    "runs",
    "samplers",
    "shifts",
    "studies",
    "training",
)
_NAMES = {
    "evaluate": "unseen.evaluation",
    "Scores": "unseen.evaluation",
    "load_catalogue": "unseen.data",
    "split_catalogue": "unseen.data",
    "build_embedder": "unseen.models",
    "embed": "unseen.models",
    "run": "unseen.runs",
    "UnseenError": "unseen.core.errors",
}

__all__ = ["__version__", *sorted([*_PACKAGES, *_NAMES])]

if TYPE_CHECKING:
    from unseen import analyses as analyses
    from unseen import core as core
    from unseen import data as data
    from unseen import evaluation as evaluation
    from unseen import losses as losses
    from unseen import methods as methods
    from unseen import miners as miners
    from unseen import models as models
    from unseen import pairs as pairs
    from unseen import reports as reports
    from unseen import robust as robust
    from unseen import runs as runs
    from unseen import samplers as samplers
    from unseen import shifts as shifts
    from unseen import studies as studies
    from unseen import training as training
    from unseen.core.errors import UnseenError as UnseenError
    from unseen.data import load_catalogue as load_catalogue
    from unseen.data import split_catalogue as split_catalogue
    from unseen.evaluation import Scores as Scores
    from unseen.evaluation import evaluate as evaluate
    from unseen.models import build_embedder as build_embedder
    from unseen.models import embed as embed
    from unseen.runs import run as run


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"unseen.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'unseen' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
