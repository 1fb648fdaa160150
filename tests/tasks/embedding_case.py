"""Embeddings of identities, made from a seed."""

import numpy as np

from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers


def answers(vectors, identities=None, pairs=None, **options):
    n = len(vectors)
    known = np.full(n, -1) if identities is None else np.asarray(identities)
    names = () if identities is None else tuple(f"id {each}" for each in range(known.max() + 1))
    ids = tuple(f"{each}.jpg" for each in range(n))
    return EmbeddingAnswers(
        ids, np.asarray(vectors, np.float32), known, names, pairs, Embedding(**options)
    )


def people(count=40, images=5, *, noise=0.6, moved=0.0, seed=0, dimensions=16, **options):
    """Return ``count`` identities of ``images`` each; ``moved`` adds noise of a second seed."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(count, dimensions))
    vectors = np.repeat(centres, images, axis=0)
    vectors = vectors + noise * rng.normal(size=vectors.shape)
    other = np.random.default_rng([seed, 1])
    vectors = vectors + moved * other.normal(size=vectors.shape)
    return answers(vectors, np.repeat(np.arange(count), images), **options)
