"""Chat templates of ours, for checkpoints of these families that come without one."""

from pathlib import Path

BUILT_IN = ("glm5_next", "glm_moe_dsa", "qwen3_5_moe", "qwen3_5_moe_text")  # model_type


def built_in(model_type: str) -> tuple[Path, dict[str, str]] | None:
    """Where the family's template lies, and it by its name; None where there is none."""
    if model_type not in BUILT_IN:
        return None
    path = Path(__file__).parent / "templates" / f"{model_type.removesuffix('_text')}.jinja"
    return path, {"default": path.read_text("utf-8")}
