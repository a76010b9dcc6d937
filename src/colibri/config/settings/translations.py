"""Values of the C engine's variables, as our settings have them."""

from __future__ import annotations


def gigabytes(text: str) -> str:
    """RAM_GB: a plain number of GB."""
    return text.strip() + "GB"


def pin_gigabytes(text: str) -> str:
    """PIN_GB: a plain number of GB."""
    return "0" if text.strip() == "0" else gigabytes(text)


def on_off(text: str) -> str:
    """DIRECT: 1 or 0."""
    return {"1": "on", "0": "off"}.get(text.strip(), text)


def pilot(text: str) -> str:
    """PILOT and PILOT_REAL: 0 or a number of layers."""
    return "off" if text.strip() == "0" else text


def autopin(text: str) -> str:
    """AUTOPIN: 1 or 0."""
    return {"1": "auto"}.get(text.strip(), text)


def same(text: str) -> str:
    return text
