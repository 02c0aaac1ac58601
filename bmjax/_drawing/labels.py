"""Names of features for pictures: in any script, and not too long."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from matplotlib import font_manager, rcParams

from bmjax._drawing.style import LONGEST
from bmjax._results.names import Names, feature_names


def in_any_script(name: str) -> tuple[str, list[str]]:
    """A name with escapes for characters that no font has, and the fonts that it needs."""
    usual = rcParams["font.family"]
    own = font_manager.findfont(font_manager.FontProperties())
    fonts = list(usual)
    for character in dict.fromkeys(name):
        if _has(own, character) or not character.isprintable():
            continue
        font = font_with(character)
        if font is None:
            name = name.replace(character, f"\\u{ord(character):04x}")
        elif font not in fonts:
            fonts.append(font)
    return name, fonts


@cache
def font_with(character: str) -> str | None:
    """The first installed font that has a character, or None."""
    for font in font_manager.fontManager.ttflist:
        if _has(font.fname, character) and "LastResort" not in font.name:
            return font.name
    return None


def _has(path: str, character: str) -> bool:
    try:
        return _opened(path).get_char_index(ord(character)) != 0
    except (OSError, RuntimeError):  # a font that is missing or broken
        return False


@cache
def _opened(path: str) -> Any:
    return font_manager.get_font(path)


def drawn_names(names: Iterable[str] | None, k: int, known: Names | None = None) -> list[str]:
    """The names, cut to the longest that fits; those of the data if none are given."""
    full = feature_names(names, k, known)
    return [n if len(n) <= LONGEST else n[: LONGEST - 1] + "…" for n in full]
