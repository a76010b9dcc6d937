"""Memory that was freed and that the C library keeps for later."""

import ctypes


def give_back() -> None:
    """Hands freed pages back to the system, so that they count no longer as this process's. Where
    the C library has no such call nothing happens.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
