"""Scores: one score or family per file, each with its slow reference in tests/evaluation/scores/test_<file>.py.

Adding a score is adding one file to this folder (docs/how-to/add-a-score.md): it is then part of `evaluate`, of `unseen
list scores`, of the bootstrap intervals and of the contract tests.

A score declares its ``basis``: the input that `evaluate` computes once for all scores of that basis.

==============  ==================================================================  ==============================
basis           called with                                                         returns
==============  ==================================================================  ==============================
ranks           `exact.ranks.Ranks`: the ranks of the positives of each query       one value per query, averaged
clusters        k-means cluster and class of each row                               a number
super_clusters  the same with super-classes; needs ``super_labels``                 a number
structure       `scores.structure.ClassSums`: sums and members of each class        a number
spectrum        singular values of the matrix of unit vectors, descending           a number
curves          `scores.pair_curves.PairCounts`: pairs per similarity               a number
embeddings      unit vectors (rows, dimensions) in float64, and class of each row   a number
==============  ==================================================================  ==============================

Rows are those that are queries or in the gallery. The intervals of per-query scores come from the bootstrap over
classes; those of other scores from calling the score again without each of 16 groups of classes (`intervals`).
"""
