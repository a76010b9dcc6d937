"""Names of formats that a user chooses among, for those who must not wait for the native module."""

from typing import Literal

Scheme = Literal["int4-gs64", "int8-gs64"]
"""What experts, and the trunk if wished, are converted to."""
