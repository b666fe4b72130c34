"""ResNet-50, by which training is measured (He et al., Deep Residual Learning for Image Recognition, 2016, table 1)."""

from __future__ import annotations

import torch
from torch import nn


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class _Bottleneck(nn.Module):
    """1 × 1, 3 × 3 with the stride, 1 × 1 to four times the width. The input is added, projected where it has to be."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, width, 1)
        self.second = _convolution(width, width, 3, stride)
        self.third = _convolution(width, 4 * width, 1)
        same = stride == 1 and inputs == 4 * width
        self.beside = nn.Identity() if same else _convolution(inputs, 4 * width, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).relu()
        return (self.third(self.second(y).relu()) + self.beside(x)).relu()  # type: ignore[no-any-return]


def resnet50(width: int = 64, classes: int = 1000) -> nn.Sequential:
    """161 tensors, 25.6 million parameters where `width` is 64. Of images N × 3 × H × W, each side at least 32."""
    stages: list[nn.Module] = [_convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
    inputs = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            wide = width << stage
            stages.append(_Bottleneck(inputs, wide, 2 if stage and not block else 1))
            inputs = 4 * wide
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
