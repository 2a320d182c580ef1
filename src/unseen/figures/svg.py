"""Figures as inline SVG for the report: matplotlib draws, this module makes the result small, themeable and safe.

Of matplotlib's output only lines, shapes and texts remain, each with a style of known properties. Colours of our
palette become variables of the page's style sheet, so that one chart serves the light and the dark theme. Texts remain
texts, in the font of the page. The serializer escapes every string; ids, links and style sheets do not get through.
"""

import io
import json
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markupsafe import Markup

from unseen.core.text import clean, full
from unseen.figures import style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

VARIABLES = {
    style.INK: "ink",
    style.SOFT: "soft",
    style.GREY: "faint",
    style.FAINT: "rule",
    style.WASH: "wash",
    style.PAPER: "paper",
    style.BETTER: "right",
    style.WORSE: "wrong",
    **{colour: f"s{position}" for position, colour in enumerate(style.SERIES)},
}
"""The variable of the report's style sheet for each colour of the palette."""

_PROPERTIES = (
    *("fill", "fill-opacity", "opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray"),
    *("stroke-linecap", "font-size", "font-style", "text-anchor"),
)
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")
_PAIR = re.compile(rf"({_NUMBER.pattern})\s+({_NUMBER.pattern})\s*")
_XLINK = "{http://www.w3.org/1999/xlink}href"
_CURVES_OF_A_CIRCLE = 8


def annotate(artist: "Artist", role: str, *tips: str) -> None:
    """Name the role of an artist (a class in the SVG); its n-th shape shows the n-th string as a tool tip."""
    # As ASCII in the one field that matplotlib hands through; a PNG leaves it out.
    artist.set_gid(json.dumps({"role": role, "tips": [full(clean(tip)) for tip in tips]}))


def to_svg(axes: "Axes", description: str, css_class: str = "chart") -> Markup:
    """The figure of the axes as an `<svg>` element; the description is for screen readers.

    Equal data give equal bytes with one version of matplotlib.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Only the width of a text is estimated with matplotlib's font; the browser has the glyphs.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font", category=UserWarning)
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 (written by matplotlib a line above)
    attributes = {"class": css_class, "viewBox": root.attrib["viewBox"], "role": "img"}
    svg = ElementTree.Element("svg", attributes | {"aria-label": full(clean(description))})
    svg.extend(list(_shapes(root, "", iter(()), {})))
    return Markup(ElementTree.tostring(svg, encoding="unicode"))  # noqa: S704 (every string was escaped by the serializer)


def _shapes(
    parent: ElementTree.Element, role: str, tips: Iterator[str], markers: dict[str, ElementTree.Element]
) -> Iterator[ElementTree.Element]:
    for element in parent:
        kind = element.tag.rpartition("}")[2]
        if kind == "g":
            identifier = element.get("id", "")
            if identifier.startswith("{"):
                note = json.loads(identifier)
                yield from _shapes(element, note["role"], iter(note["tips"]), markers)
            else:
                yield from _shapes(element, role, tips, markers)
        elif kind == "defs":
            markers |= {f"#{path.get('id')}": path for path in element}
        elif kind in ("path", "use", "text"):
            shape = _text(element) if kind == "text" else _path(element, markers)
            if role:
                shape.set("class", role)
            shape.set("style", _style(element.get("style", "")))
            tip = next(tips, "")
            if tip and tip != shape.text:
                ElementTree.SubElement(shape, "title").text = tip
            yield shape


def _path(element: ElementTree.Element, markers: dict[str, ElementTree.Element]) -> ElementTree.Element:
    """The path with coordinates of one decimal; a marker is placed where it is used, a round one is a circle."""
    marker = markers.get(element.get(_XLINK, ""))
    d = (element if marker is None else marker).get("d", "")
    x, y = float(element.get("x", 0)), float(element.get("y", 0))
    if marker is not None and d.count("C") == _CURVES_OF_A_CIRCLE:
        radius = max(map(float, _NUMBER.findall(d)))
        return ElementTree.Element("circle", {"cx": _short(x), "cy": _short(y), "r": _short(radius)})
    pairs = _PAIR.sub(lambda pair: f"{_short(float(pair[1]) + x)} {_short(float(pair[2]) + y)} ", d)
    return ElementTree.Element("path", {"d": re.sub(r"\s*([A-Za-z])\s*", r"\1", pairs).strip()})


def _text(element: ElementTree.Element) -> ElementTree.Element:
    position = {side: _short(float(element.get(side, 0))) for side in ("x", "y")}
    text = ElementTree.Element("text", position)
    text.text = element.text
    return text


def _style(declarations: str) -> str:
    allowed = []
    for declaration in declarations.split(";"):
        name, _, value = declaration.strip().partition(": ")
        if name in _PROPERTIES:
            variable = VARIABLES.get(value)
            allowed.append(f"{name}:var(--{variable})" if variable else f"{name}:{value}")
    return ";".join(allowed)


def _short(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
