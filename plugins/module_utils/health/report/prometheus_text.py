# SPDX-License-Identifier: GPL-3.0-or-later
"""Write metrics in the text format of Prometheus, version 0.0.4: what node exporter reads from files, and what an exporter answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

GAUGE, COUNTER = "gauge", "counter"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True)
class Metric:
    """Hold a metric with all its samples: labels and value. `name` is whole, such as `bedplate_slurm_up`."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[Labels, float]]


def text_of(metrics: Iterable[Metric]) -> str:
    """Return the text of metrics. A metric without a sample has no lines.

    >>> print(text_of([Metric("x_up", GAUGE, "1 if x answers.", [({"host": "a"}, 1)])]), end="")
    # HELP x_up 1 if x answers.
    # TYPE x_up gauge
    x_up{host="a"} 1
    """
    lines: list[str] = []
    for metric in metrics:
        if metric.samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{metric.name}{_labels(labels)} {_number(value)}" for labels, value in metric.samples]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()])
    return f"{{{pairs}}}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if float(value).is_integer() else repr(float(value))
