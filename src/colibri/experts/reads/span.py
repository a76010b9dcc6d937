"""One span from a file into its place: short reads completed, failed ones tried again."""

import errno

from colibri.container.layerexperts import Span
from colibri.container.retry import RETRIES, described, pause
from colibri.errors import ReadError
from colibri.experts.base import PAGE, ReadFunction
from colibri.experts.reads.files import ExpertFile
from colibri.hardware.pagecache import forget_pages


def read_span(
    read: ReadFunction, file: ExpertFile, span: Span, slot: memoryview, layer: int, expert: int
) -> int:
    """Fills the span's place in the slot; the bytes read. Raises ReadError after the retries."""
    target = slot[span.slot_offset : span.slot_offset + span.nbytes]
    done = retries = 0
    while done < span.needed:
        got, problem = _attempt(read, file, span.offset + done, target[done:])
        done += got
        if problem and not got:
            if retries == RETRIES:
                where = f"{file.path} at byte {span.offset + done}"
                raise ReadError(
                    f"{where}: expert {expert} of layer {layer} cannot be read: {problem}, "
                    f"after {RETRIES} retries; check the disk and the file"
                )
            pause(retries)
            retries += 1
    return done


def _attempt(
    read: ReadFunction, file: ExpertFile, offset: int, target: memoryview
) -> tuple[int, str]:
    """Bytes read, and what went wrong if none were."""
    direct = file.direct
    if direct is not None and offset % PAGE == 0:
        try:
            return _result(read(direct, [target], offset))
        except OSError as error:
            if error.errno != errno.EINVAL:
                return 0, described(error)
            file.refuse_direct()
    return _attempt_buffered(read, file, offset, target)


def _attempt_buffered(
    read: ReadFunction, file: ExpertFile, offset: int, target: memoryview
) -> tuple[int, str]:
    """Also for the rest of a direct read that stopped inside a page."""
    try:
        descriptor = file.buffered()
        got = read(descriptor, [target], offset)
    except OSError as error:
        return 0, described(error)
    # The slot is the cache: keeping the pages too would squeeze everything else.
    forget_pages(descriptor, offset, got)
    return _result(got)


def _result(got: int) -> tuple[int, str]:
    return got, "" if got else "the file ends there"
