"""The public class: a model that answers text with text."""

from colibri.llm.files import embedded_model, model_directory
from colibri.llm.model import LLM

__all__ = ["LLM", "embedded_model", "model_directory"]
