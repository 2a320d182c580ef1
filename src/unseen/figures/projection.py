"""Projection into the plane: t-SNE where openTSNE is installed, else principal components; deterministic."""

import numpy as np


def principal(embeddings: np.ndarray) -> np.ndarray:
    """The first two principal components, each with its largest weight positive."""
    centred = embeddings - embeddings.mean(axis=0)
    left, values, right = np.linalg.svd(centred, full_matrices=False)
    positions = np.zeros((len(embeddings), 2))
    for axis in range(min(2, len(values))):
        sign = 1.0 if right[axis][np.abs(right[axis]).argmax()] >= 0 else -1.0
        positions[:, axis] = sign * left[:, axis] * values[axis]
    return positions


def project(embeddings: np.ndarray) -> tuple[np.ndarray, str]:
    """Positions in the plane and the name of the projection; embeddings are normalised first.

    Empty:  few or nearly equal points are projected on principal components, as t-SNE needs more
    """
    points = embeddings.astype(np.float64)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    points = points / np.where(lengths > 0, lengths, 1.0)
    positions = principal(points)
    if len(points) < 30 or not positions[:, 0].std() > 1e-6:
        return positions, "principal components"
    try:
        from openTSNE import TSNE
    except ImportError:
        return positions, "principal components"
    # Distances are precomputed: openTSNE's neighbour search would import numba, which compiles for 15 s at first use.
    squares = (points**2).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * points @ points.T, 0.0))
    np.fill_diagonal(distances, 0.0)
    start = positions / positions[:, 0].std() * 1e-4
    perplexity = min(20.0, (len(points) - 1) / 3)
    tsne = TSNE(
        perplexity=perplexity,
        metric="precomputed",
        initialization=start,
        negative_gradient_method="bh",
        early_exaggeration_iter=150,
        n_iter=350,
        n_jobs=1,
        random_state=0,
    )
    return np.asarray(tsne.fit(distances)), f"t-SNE (openTSNE, perplexity {perplexity:g})"
