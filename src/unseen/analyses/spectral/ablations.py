"""Ablations: methods of a study paired with the same method without one component."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from unseen.analyses.spectral.trained_methods import TrainedMethod, TrainedMethods
from unseen.core.config import Record, hash_of

SeedValues: TypeAlias = Callable[[TrainedMethod], np.ndarray]


@dataclass(frozen=True)
class Ablation:
    """A component that some methods of a study have.

    ========  ===================================================================================
    study     a shipped study that has methods with and without it
    remove    the settings of a method without the component; None where a method does not have it
    ========  ===================================================================================
    """

    name: str
    study: str
    remove: Callable[[Record], Record | None]


@dataclass(frozen=True, eq=False)
class AblationPair:
    """A method without and with a component, all other settings being equal."""

    without: TrainedMethod
    with_it: TrainedMethod

    def means(self, values: SeedValues) -> tuple[float, float]:
        """The mean over seeds without and with the component."""
        return float(values(self.without).mean()), float(values(self.with_it).mean())

    def differences(self, values: SeedValues) -> np.ndarray:
        """With minus without, for each seed that both have."""
        without, with_it = (dict(zip(own.seeds, values(own), strict=True)) for own in (self.without, self.with_it))
        return np.array([value - without[seed] for seed, value in with_it.items() if seed in without])


def p_switch_of(config: object) -> float:
    """The share of triplets whose negative is replaced by a positive; 0 without rho-regularisation."""
    if isinstance(config, Mapping):
        own = config.get("p_switch")
        return float(own) if own is not None else max((p_switch_of(value) for value in config.values()), default=0.0)
    return 0.0


def without_switch(config: Record) -> Record | None:
    """The settings with plain distance-weighted mining; None where nothing is switched."""
    return _plain_miner(config) if p_switch_of(config) > 0 else None


def _plain_miner(config: Any) -> Any:
    if not isinstance(config, Mapping):
        return config
    if config.get("name") == "rho_distance":
        return {key: value for key, value in config.items() if key != "p_switch"} | {"name": "distance"}
    return {key: _plain_miner(value) for key, value in config.items()}


def without_mixup(config: Record) -> Record | None:
    """The settings with the plain method; None where nothing is mixed."""
    return {**config, "method": {"name": "plain"}} if config["method"]["name"] == "mixup" else None


RHO_REGULARISATION = Ablation("rho-regularisation", "regularisation", without_switch)
MIXUP = Ablation("mixup", "mixup", without_mixup)


def ablation_pairs(study: TrainedMethods, ablation: Ablation) -> list[AblationPair]:
    """Every method with the component beside the one that differs from it by the component alone."""
    # A rho-distance miner that never switches is distance-weighted mining.
    plain = {
        hash_of(method.config if p_switch_of(method.config) > 0 else _plain_miner(method.config)): method
        for method in study.methods
    }
    pairs = []
    for method in study.methods:
        config = ablation.remove(method.config)
        without = None if config is None else plain.get(hash_of(config))
        if without is not None:
            pairs.append(AblationPair(without, method))
    return pairs
