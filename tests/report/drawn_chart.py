"""Charts read back: positions in the SVG → values, by the texts of the marks of its axes alone."""

import re
from xml.etree import ElementTree as ET

from alignkit.text.numbers import MINUS, NBSP


def figure(plot):
    return ET.fromstring(plot.__html__())


def classes(element):
    return element.get("class", "").split()


def found(plot, name, part=None):
    """Return the elements of a class, of the whole figure or of a part of it."""
    chart = figure(plot).find("div/svg") if part is None else part
    return [each for each in chart.iter() if name in classes(each)]


def number(text):
    words = text.replace(MINUS, "-").replace(NBSP, "").removesuffix("×")
    try:
        return float(words)
    except ValueError:
        return None


def axis(plot, anchor, place):
    """Return (position, value) of each mark of one axis."""
    chart = figure(plot).find("div/svg")
    texts = [each for each in chart.iter("text") if each.get("text-anchor") == anchor]
    known = [(float(each.get(place)), number(each.text)) for each in texts if not classes(each)]
    return [each for each in known if each[1] is not None]


def read(marks, position, bent, back):
    """Turn a position into a value: straight between the outer marks of a bent axis."""
    (start, low), (end, high) = marks[0], marks[-1]
    low, high = bent(low), bent(high)
    return back(low + (position - start) / (end - start) * (high - low))


def same(value):
    return value


def spots(d):
    """Return the corners of a path whose commands are absolute: ``M``, ``L``, ``H`` and ``V``."""
    at, places = (0.0, 0.0), []
    for command, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", d):
        values = [float(each) for each in re.findall(r"-?[\d.]+(?:e-?\d+)?", rest)]
        if command in "ML":
            at = (values[0], values[1])
        elif command == "H":
            at = (values[0], at[1])
        elif command == "V":
            at = (at[0], values[0])
        else:
            continue  # a relative command draws the shape of a mark, not its place
        places.append(at)
    return places


def values(plot, d, x=(same, same), y=(same, same)):
    """Return the corners of a path in data units; ``x`` and ``y``: the axis bent, and back."""
    xs = axis(plot, "middle", "x")
    ys = [(at - 4, value) for at, value in axis(plot, "end", "y")]  # texts stand a little lower
    return [(read(xs, a, *x), read(ys, b, *y)) for a, b in spots(d)]


def keys(plot):
    """Return the words of the legend."""
    parts = [each for each in figure(plot).iter("p") if classes(each) == ["series"]]
    return ["".join(each.itertext()).strip() for part in parts for each in part]
