"""The structure that an answer must have, enforced token by token."""

from colibri.grammar.matcher import Matcher
from colibri.grammar.structure import Structure

__all__ = ["Matcher", "Structure"]
