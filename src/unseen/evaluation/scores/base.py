"""What every score states about itself."""

from collections.abc import Callable
from typing import ClassVar, Literal

from unseen.evaluation.exact.arrays import Floats


class Score:
    """A score: facts for `evaluate` and the reports, and a call that computes it from its basis.

    =================  ===============================================================================
    basis              the input that the score is called with, one of the table in `unseen.evaluation.scores`
    definition         one sentence, stored and printed with the value
    higher_is_better   which direction is better
    bounds             the smallest and the largest possible value; intervals are clipped to them
    is_default         whether it is computed when no scores are named
    collapsed          value for embeddings that are all equal: a number; "chance": the mean over random embeddings;
                       "one cluster": that of a single cluster; "worst": no other embeddings score worse
    =================  ===============================================================================
    """

    basis: ClassVar[str]
    definition: str
    higher_is_better: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    is_default: ClassVar[bool] = True
    collapsed: ClassVar[float | Literal["chance", "one cluster", "worst"]] = "chance"

    # Called with its basis; returns the value, or one value per query.
    __call__: Callable[..., float | Floats]
