"""Charts read back from their SVG: what shapes, texts and tool tips they have."""

import re
from dataclasses import dataclass
from xml.etree import ElementTree

from markupsafe import Markup

STYLE = re.compile(r"(?:(?:[a-z-]+:(?:none|var\(--[a-z0-9]+\)|[0-9.]+(?:px)?(?:[ ,]+[0-9.]+)*|[a-z]+))(?:;|$))*")
"""What the `style` of a shape may hold: known values, no address and no function but var()."""


@dataclass(frozen=True)
class Shape:
    """A shape of a chart: its role, attributes, text and tool tip."""

    kind: str
    role: str
    attributes: dict[str, str]
    text: str
    tip: str

    def style(self, name: str) -> str:
        declarations = dict(part.split(":", 1) for part in self.attributes["style"].split(";"))
        return declarations.get(name, "")


def shapes(chart: Markup | None, role: str = "") -> list[Shape]:
    """The shapes of a chart, or those of one role."""
    every = [
        Shape(element.tag, element.get("class", ""), element.attrib, element.text or "", element.findtext("title", ""))
        for element in _parse(chart)
    ]
    return [shape for shape in every if not role or shape.role.split()[:1] == [role]]


def description(chart: Markup | None) -> str:
    """What a chart says to those who cannot see it."""
    return _parse(chart).attrib["aria-label"]


def tick_labels(chart: Markup | None, anchor: str) -> list[str]:
    """The texts of ticks: anchored in the middle below a chart, at the end left of it."""
    plain = [shape for shape in shapes(chart) if shape.kind == "text" and not shape.role]
    return [shape.text for shape in plain if shape.style("text-anchor") == anchor]


def _parse(chart: Markup | None) -> ElementTree.Element:
    assert chart is not None
    return ElementTree.fromstring(chart)  # noqa: S314 (our own chart)
