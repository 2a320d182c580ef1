import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unseen.models import Embedder
from unseen.models.backbone import Backbone
from unseen.models.fused_convolutions import _Convolution, _Fused, fused_convolutions


def norm(channels, generator, *, affine=True):
    """A batch norm with statistics and parameters unlike those of a new one."""
    module = nn.BatchNorm2d(channels, affine=affine)
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return module


class Winding(Backbone):
    """Every case in one network: what can be folded, and what must not be."""

    width, has_pretrained_weights = 8, True

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.with_bias, self.norm = nn.Conv2d(3, 8, 3, padding=1), norm(8, generator)
            self.left, self.right = (nn.Conv2d(8, 8, 1, bias=False) for _ in range(2))
            self.norm_left, self.norm_right = norm(8, generator, affine=False), norm(8, generator)
            self.depthwise, self.norm_depthwise = nn.Conv2d(8, 8, 5, 2, 2, groups=8, bias=False), norm(8, generator)
            self.used_twice, self.norm_used_twice = nn.Conv2d(8, 8, 1, bias=False), norm(8, generator)
            self.called_twice, self.norm_called_twice = nn.Conv2d(8, 8, 1, bias=False), norm(8, generator)
            self.by_keyword = nn.Conv2d(8, 8, 1, bias=False)
            self.norm_by_keyword = norm(8, generator, affine=False)
            self.alone = nn.Conv2d(8, 8, 3, bias=False)
            self.norm_of_a_sum = norm(8, generator)

    def forward(self, inputs):
        inputs = F.relu6(self.norm(self.with_bias(inputs)), inplace=True)
        left, right = self.left(inputs), self.right(inputs)  # two are pending at once
        inputs = inputs + self.norm_left(left) * self.norm_right(right)
        inputs = F.relu6(self.norm_depthwise(self.depthwise(inputs)), inplace=True)
        shared = self.used_twice(inputs)
        inputs = self.norm_used_twice(shared) + 0.1 * shared
        for _ in range(2):
            inputs = self.norm_called_twice(self.called_twice(inputs))
        inputs = F.batch_norm(  # by keywords, as nobody writes it
            input=F.conv2d(input=inputs, weight=self.by_keyword.weight),
            running_mean=self.norm_by_keyword.running_mean,
            running_var=self.norm_by_keyword.running_var,
        )
        return self.norm_of_a_sum(self.alone(inputs) + 1).mean((2, 3))


FOLDED = {"with_bias", "left", "right", "depthwise", "by_keyword"}


def gradients(model, inputs, context=None):
    model.zero_grad()
    if context is None:
        outputs = model(inputs)
    else:
        with context:
            outputs = model(inputs)
    outputs.square().sum().backward()
    return outputs.detach(), {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def test_folding_changes_neither_the_outputs_nor_any_gradient():
    model = Embedder(Winding(), embedding_size=4).double().train()
    inputs = torch.randn(3, 3, 12, 12, dtype=torch.float64)
    fused = fused_convolutions(model, inputs[:1])
    assert isinstance(fused, _Fused)
    named = model.backbone.named_parameters()
    assert {name.removesuffix(".weight") for name, parameter in named if parameter in fused._batch_norms} == FOLDED
    outputs, expected = gradients(model, inputs)
    for _ in range(2):  # the context is entered at every step
        found = gradients(model, inputs, fused)
        torch.testing.assert_close(found[0], outputs, rtol=1e-12, atol=1e-12)
        for name, gradient in expected.items():
            scale = gradient.abs().max().item()
            torch.testing.assert_close(found[1][name], gradient, rtol=1e-10, atol=1e-12 * scale, msg=name)
    assert not fused._pending
    assert model.training
    assert not any(module.training for module in model.modules() if isinstance(module, nn.BatchNorm2d))


def test_statistics_that_are_trained_are_left_alone():
    model = Embedder(Winding(), embedding_size=4, batch_norm="trained").train()
    inputs = torch.randn(3, 3, 12, 12)
    fused = fused_convolutions(model, inputs[:1])
    assert isinstance(fused, _Fused)  # for its depthwise kernel only
    assert not fused._batch_norms
    plain = copy.deepcopy(model)
    gradients(model, inputs, fused)
    gradients(plain, inputs)
    for name, buffer in plain.named_buffers():
        torch.testing.assert_close(dict(model.named_buffers())[name], buffer)


def test_a_network_with_nothing_to_gain_runs_as_it_is():
    class Flat(Backbone):
        width, has_pretrained_weights = 12, False

        def forward(self, inputs):
            return inputs.flatten(1)

    model = Embedder(Flat(), embedding_size=4)
    assert not isinstance(fused_convolutions(model, torch.randn(1, 3, 2, 2)), _Fused)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("channels", "size", "kernel", "stride", "padding"),
    [
        (5, (7, 6), (5, 5), 1, 2),
        (64, (5, 5), (5, 5), (1, 1), (2, 2)),
        (130, (11, 8), (5, 5), 2, 0),  # more channels than two blocks
        (7, (9, 9), (7, 3), (2, 1), (3, 0)),
        (3, (1, 2), (5, 5), 1, 2),  # most of the kernel lies outside
        (2, (20, 20), (4, 6), 3, (1, 5)),
    ],
)
def test_our_weight_gradient_is_that_of_the_library(channels, size, kernel, stride, padding, threads):
    generator = torch.Generator().manual_seed(1)
    tensors = [
        torch.randn(shape, generator=generator) for shape in ((3, channels, *size), (channels, 1, *kernel), (channels,))
    ]
    results = []
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for dtype in (torch.float32, torch.float64):
            leaves = [tensor.to(dtype, copy=True).requires_grad_() for tensor in tensors]
            images, weight, bias = leaves
            call = _Convolution(images, weight, bias, stride, padding, groups=channels)
            assert call.has_slow_kernel == (dtype == torch.float32)  # in float64 it is the library's
            outputs = call.run()
            (outputs * torch.linspace(-1, 1, outputs.numel(), dtype=dtype).view(outputs.shape)).sum().backward()
            results.append([outputs, *(leaf.grad for leaf in leaves)])
    finally:
        torch.set_num_threads(before)
    for found, expected in zip(*results, strict=True):
        # Sums of up to 3 * 20 * 20 products in float32.
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5 * expected.abs().max().item())


def test_our_weight_gradient_is_the_same_for_any_number_of_threads():
    inputs, weight = torch.randn(4, 200, 9, 9), torch.randn(200, 1, 5, 5)
    found: list[torch.Tensor] = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            leaf = weight.clone().requires_grad_()
            value = _Convolution(inputs, leaf, None, 1, 2, 1, 200).run().square().sum()
            found += torch.autograd.grad(value, leaf)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
