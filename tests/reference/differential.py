"""Tens of thousands of headers, each read by the reference and by us in REFERENCE mode: no difference is allowed.

    differential.py [CASES [SEED]]
    differential.py --record | --recorded    (support/recorded.py)

Compared are the verdict, the kind of error (and where, for bad UTF-8), and all that is in an accepted file: names,
dtypes, shapes, places, bytes and metadata. Where two tensors tie on (begin, end) the reference sorts them at
random and so may name one error or another: it is asked again before a difference counts.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import pathlib
import re
import sys
import tempfile
import time

from support import library_path, need_reference
from support.headers import Headers
from support.library import REFERENCE, Library, Refused
from support.recorded import Recorded, Recorder, digest, mode

CORPUS = pathlib.Path(__file__).parent.parent / "conformance" / "files"
LARGEST_SEED = 3000  # bytes: a larger file spends its mutations on padding
ASKED_AGAIN = 100
RECORDED_CASES, RECORDED_SEED = 2_500, 20_240_301
# A file that is added to the corpus leaves the recorded cases as they are.
RECORDED_CORPUS = ["dtype_escaped", "dtype_ok_F4", "dup_unknown_field", "entry_field_order", "entry_unknown_float",
                   "entry_unknown_object", "layout_dtype_order_ascending", "skipped_odd_u64_max"]

# docs/format.md 1.1. What the reference says, and which of our statuses belong to it.
ERRORS = [
    ("header too small", "HeaderTooSmall", {"ST_ERR_TRUNCATED"}),
    ("header too large", "HeaderTooLarge", {"ST_ERR_HEADER_SIZE"}),
    ("invalid header length", "InvalidHeaderLength", {"ST_ERR_TRUNCATED"}),
    ("invalid UTF-8 in header", "InvalidHeader", {"ST_ERR_UTF8"}),
    ("invalid JSON in header", "InvalidHeaderDeserialization", {"ST_ERR_JSON", "ST_ERR_SCHEMA", "ST_ERR_DUPLICATE", "ST_ERR_DTYPE"}),
    ("invalid offset for tensor", "InvalidOffset", {"ST_ERR_OFFSETS"}),
    ("overflow computing buffer size", "ValidationOverflow", {"ST_ERR_OVERFLOW"}),
    ("does not end up at a byte boundary", "MisalignedSlice", {"ST_ERR_MISALIGNED"}),
    ("invalid shape, data type, or offset", "TensorInvalidInfo", {"ST_ERR_TENSOR_SIZE"}),
    ("incomplete metadata", "MetadataIncompleteBuffer", {"ST_ERR_COVERAGE"}),
]


class Reference:
    def __init__(self, package, folder):
        self.package = package
        self.path = pathlib.Path(folder) / "accepted.safetensors"

    def read(self, data):
        """("", tensors, metadata), or (what it said, None, None)"""
        try:
            found = self.package.deserialize(data)
        except self.package.SafetensorError as refusal:
            return str(refusal), None, None
        # The rest can only be had from a file.
        self.path.write_bytes(data)
        with self.package.safe_open(str(self.path), "np") as file:
            metadata, order = file.metadata() or {}, file.offset_keys()
        pairs = sorted(metadata.items())
        by_name = dict(found)
        tensors, offset = {}, 8 + int.from_bytes(data[:8], "little")
        for name in order:
            tensor = by_name.pop(name)
            tensors[name] = (tensor["dtype"], tensor["shape"], offset, bytes(tensor["data"]))
            offset += len(tensor["data"])
        assert not by_name
        return "", tensors, pairs


def kind_of(refusal):
    for text, kind, statuses in ERRORS:
        if text in refusal:
            return kind, statuses
    raise AssertionError(f"the reference said something new: {refusal}")


def utf8_offset(refusal):
    return 8 + int(re.search(r"from index (\d+)", refusal).group(1))


def ours(library, data):
    """("", tensors, metadata), or (status, None, offset)"""
    try:
        file = library.open_memory(data, REFERENCE)
    except Refused as refusal:
        return refusal.status, None, refusal.offset
    found = library.tensors(file), sorted(library.metadata(file))
    library.so.st_free(file)
    return "", *found


def difference(library, reference, data, counts):
    """Words for what differs, or None."""
    refusal, tensors, metadata = reference.read(data)
    status, our_tensors, rest = ours(library, data)
    if not refusal or not status:
        counts["accepted" if not status else f"refused: {status}"] += 1
        if bool(refusal) != bool(status):
            return f"the reference: {refusal or 'accepted'}\n  ours: {status or 'accepted'}"
        if tensors != our_tensors:
            return f"the reference lists {tensors}\n  ours {our_tensors}"
        return None if metadata == rest else f"the reference has metadata {metadata}\n  ours {rest}"
    kind, statuses = kind_of(refusal)
    counts[f"refused: {kind:<28} {status}"] += 1
    if status == "ST_ERR_FORMAT":  # comes before all other checks
        return None
    if status in statuses:
        if kind == "InvalidHeader" and rest != utf8_offset(refusal):
            return f"the reference: {refusal}\n  ours at {rest}"
        return None
    for _ in range(ASKED_AGAIN):
        if status in kind_of(reference.read(data)[0])[1]:
            counts["(the reference answers at random)"] += 1
            return None
    return f"the reference: {refusal}\n  ours: {status}"


def large_files():
    """At the limit of the header's length, and one beyond."""
    for length in (100_000_000, 100_000_001):
        yield length.to_bytes(8, "little") + b"{}".ljust(length)


def cases(count, seed):
    corpus = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
    yield from corpus
    headers = Headers(seed, [whole for whole in corpus if 8 < len(whole) < LARGEST_SEED])
    for _ in range(count):
        yield headers.file()
    yield from large_files()


# ---- recorded answers --------------------------------------------------------------------------------------------------

def listing(tensors, metadata):
    return "accepted " + digest((sorted(tensors.items()), metadata))


def recorded_answer(reference, data):
    """"accepted" and a digest of what is in the file, or every kind of error that the reference gives it."""
    refusal, tensors, metadata = reference.read(data)
    if not refusal:
        return listing(tensors, metadata)
    kinds = {kind_of(reference.read(data)[0])[0] for _ in range(ASKED_AGAIN)}
    return " ".join(f"{kind}@{utf8_offset(refusal)}" if kind == "InvalidHeader" else kind for kind in sorted(kinds))


def is_answer(answer, status, found, offset):
    if not status:
        return answer == listing(found, offset)
    statuses = {kind: of_kind for _, kind, of_kind in ERRORS}
    for kind, _, place in (word.partition("@") for word in answer.split()):
        if status in statuses.get(kind, ()) and (not place or int(place) == offset):
            return True
    return status == "ST_ERR_FORMAT" and not answer.startswith("accepted")


def compare_recorded(library, answers):
    corpus = [(CORPUS / f"{name}.safetensors").read_bytes() for name in RECORDED_CORPUS]
    headers, accepted, differences = Headers(RECORDED_SEED, corpus), 0, 0
    for case in range(RECORDED_CASES):
        data = headers.file()
        answer, said = answers.answer(data, data), ours(library, data)
        accepted += not said[0]
        if not is_answer(answer, *said):
            differences += 1
            print(f"case {case}: {data[:2000]!r}\n  recorded: {answer}\n  ours: {said}")
    answers.finish()
    print(f"{RECORDED_CASES} files against recorded answers, {accepted} of them accepted: {differences} differences")
    return 1 if differences or not 0 < accepted < RECORDED_CASES else 0


def main():
    chosen = mode()
    if chosen == "--recorded":
        return compare_recorded(Library(library_path()), Recorded("differential"))
    package = need_reference()
    library = Library(library_path())
    if chosen == "--record":
        with tempfile.TemporaryDirectory() as folder:
            reference = Reference(package, folder)
            return compare_recorded(library, Recorder("differential", lambda data: recorded_answer(reference, data)))
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 24_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 20_240_229
    counts, differences, compared, started = collections.Counter(), 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        reference = Reference(package, folder)
        for data in cases(count, seed):
            compared += 1
            what = difference(library, reference, data, counts)
            if what is None:
                continue
            differences += 1
            if differences <= 20:
                print(f"case {compared - 1}: {data[:2000]!r}\n  {what}")
    for kind, number in sorted(counts.items()):
        print(f"{number:>8}  {kind}")
    print(f"{compared} files against safetensors {package.__version__} with seed {seed}: {differences} differences, "
          f"{time.monotonic() - started:.1f} s")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
