"""ONNX graphs of networks: any batch, evaluation mode, the network untouched."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unseen.core.errors import ConfigError
from unseen.models import build_embedder
from unseen.models.onnx_graph import INPUT, OUTPUT, to_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def _run(graph: bytes, inputs: Tensor) -> np.ndarray:
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    (outputs,) = session.run([OUTPUT], {INPUT: inputs.numpy()})
    return np.asarray(outputs)


def test_a_graph_takes_any_number_of_rows_and_returns_what_evaluation_returns() -> None:
    model = build_embedder("convnet", input_shape=(3, 24, 24), embedding_size=8).train()
    with torch.no_grad():
        model(torch.randn(16, 3, 24, 24) * 3 + 1)  # running statistics that differ from the batch's
    graph = to_onnx(model, torch.zeros(1, 3, 24, 24))
    assert all(module.training for module in model.modules())
    model.eval()
    for rows in (1, 2, 5):
        inputs = torch.randn(rows, 3, 24, 24)
        with torch.no_grad():
            expected = model(inputs).numpy()
        assert np.allclose(_run(graph, inputs), expected, atol=1e-5)


def test_a_graph_names_its_axes() -> None:
    graph = onnx.load_from_string(to_onnx(nn.Linear(3, 2), torch.zeros(1, 3)))
    for value, name, size in ((graph.graph.input[0], INPUT, 3), (graph.graph.output[0], OUTPUT, 2)):
        batch, width = value.type.tensor_type.shape.dim
        assert (value.name, batch.dim_param, width.dim_value) == (name, "batch", size)


def test_a_network_that_cannot_be_traced_is_refused_in_one_sentence() -> None:
    class Branching(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs if inputs.sum().item() > 0 else -inputs

    with pytest.raises(ConfigError, match="cannot be exported to ONNX") as problem:
        to_onnx(Branching(), torch.zeros(1, 3))
    assert "\n" not in str(problem.value)
