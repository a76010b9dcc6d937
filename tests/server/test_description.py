"""The description of the API, by a fuzzer that believes every word of it."""

from __future__ import annotations

from typing import Any

import pytest
from server_kit import serving

from colibri import LLM


@pytest.mark.filterwarnings("default")  # the fuzzer's own
@pytest.mark.parametrize("examples", [8, pytest.param(300, marks=pytest.mark.soak)])
def test_the_description_fuzzed(llm: LLM, examples: int) -> None:
    """schemathesis: never a 5xx, and every answer is of the form that the description gives."""
    import schemathesis
    from hypothesis import HealthCheck, given, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    ]
    with serving(llm, {"max_tokens": 2}) as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        for result in schema.get_all_operations():
            operation = result.ok()

            @given(case=operation.as_strategy())
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            )
            def fuzz(case: Any) -> None:
                if case.media_type == "application/json" and isinstance(case.body, dict):
                    for name in ("max_tokens", "max_completion_tokens"):
                        if isinstance(case.body.get(name), int):
                            case.body[name] = min(case.body[name], 3)
                response = case.call(base_url=server.url)
                case.validate_response(response, checks=checks)

            fuzz()
