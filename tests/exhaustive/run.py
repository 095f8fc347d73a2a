"""Every small file and every small slice, in the library and in the model (model.py): they must agree.

    run.py LIBRARY [--tokens N] [--slices ELEMENTS] [--most CASES_PER_TASK] [--seed N] [--jobs N]

--tokens is the number of tokens in the longest sequence. --slices is the number of elements in the largest tensor that
is sliced. With --most, each task tries a random sample of its cases. Prints the number of cases of each family. Without
options it takes some hours of CPU time.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import ctypes
import itertools
import math
import multiprocessing
import os
import random
import sys

import model

KIND_OF_STATUS = {301: (model.TOO_LARGE,), 300: (model.TOO_SMALL, model.TOO_SHORT), 302: (model.TEXT,), 303: (model.TEXT,),
                  304: (model.TEXT,), 305: (model.TEXT,), 306: (model.TEXT,), 313: (model.TEXT,), 307: (model.OFFSETS,),
                  308: (model.OVERFLOW,), 309: (model.MISALIGNED,), 310: (model.TENSOR_SIZE,), 311: (model.COVERAGE,)}
FLAGS = {model.DEFAULT: 0, model.STRICT: 1, model.REFERENCE: 2}
SHOWN = 20  # differences of a task


# ---- the library ----------------------------------------------------------------------------------------------------

class Options(ctypes.Structure):  # st_open_options
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("io", ctypes.c_int32),
                ("threads", ctypes.c_uint32), ("max_header_bytes", ctypes.c_uint64), ("allocator", ctypes.c_void_p)]


class Library:
    def __init__(self, path):
        self.so = ctypes.CDLL(path)
        for name, result, *arguments in [
                ("st_open_memory", ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p,
                 ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
                ("st_count_tensors", ctypes.c_size_t, ctypes.c_void_p),
                ("st_get_tensor_at", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
                ("st_tensor_name", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
                ("st_tensor_dtype_name", ctypes.c_char_p, ctypes.c_void_p),
                ("st_tensor_rank", ctypes.c_size_t, ctypes.c_void_p),
                ("st_tensor_shape", ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p),
                ("st_tensor_offset", ctypes.c_uint64, ctypes.c_void_p),
                ("st_tensor_bytes", ctypes.c_uint64, ctypes.c_void_p),
                ("st_tensor_read_slice", ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                 ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
                ("st_free", None, ctypes.c_void_p)]:
            function = getattr(self.so, name)
            function.restype, function.argtypes = result, arguments
        self.options = {mode: Options(ctypes.sizeof(Options), flags) for mode, flags in FLAGS.items()}
        self.out = ctypes.c_void_p()

    def open(self, file, mode):
        return self.so.st_open_memory(file, len(file), None, None, ctypes.addressof(self.options[mode]),
                                      ctypes.addressof(self.out), None)

    def tensor(self, at):
        so = self.so
        tensor = so.st_get_tensor_at(self.out, at)
        length = ctypes.c_size_t()
        name = ctypes.string_at(so.st_tensor_name(tensor, ctypes.addressof(length)), length.value).decode()
        shape = tuple(so.st_tensor_shape(tensor)[:so.st_tensor_rank(tensor)])
        return (name, so.st_tensor_dtype_name(tensor).decode(), shape, so.st_tensor_offset(tensor),
                so.st_tensor_bytes(tensor))

    def verdict(self, file, mode):
        status = self.open(file, mode)
        if status != 0:
            return KIND_OF_STATUS.get(status, (status,))
        tensors = [self.tensor(i) for i in range(self.so.st_count_tensors(self.out))]
        self.so.st_free(self.out)
        return sorted(tensors, key=lambda tensor: (tensor[3], tensor[3] + tensor[4], tensor[0]))


# ---- files ----------------------------------------------------------------------------------------------------------

def file_of(text, data):
    return len(text).to_bytes(8, "little") + text.encode() + data


def described(kind, shape, begin, end):
    return f'{{"dtype":"{kind}","shape":[{",".join(map(str, shape))}],"data_offsets":[{begin},{end}]}}'


def shapes(ranks, sizes):
    return [shape for rank in ranks for shape in itertools.product(sizes, repeat=rank)]


def one_tensor(kind):
    """Each header of one tensor, with 0 to 6 bytes of data."""
    for shape, begin, end, data in itertools.product(shapes(range(4), range(4)), range(7), range(7), range(7)):
        yield file_of(f'{{"a":{described(kind, shape, begin, end)}}}', bytes(data))


def tensors(*entries, most_data):
    text = ",".join(f'"{name}":{entry}' for name, entry in zip("bac", entries))
    for data in range(most_data + 1):
        yield file_of(f"{{{text}}}", bytes(data))


def two_tensors(kind):
    choices = [described(k, *rest) for k, *rest in
               itertools.product(("U8", "F4"), shapes(range(3), range(3)), range(4), range(4))]
    firsts = [described(kind, *rest) for rest in itertools.product(shapes(range(3), range(3)), range(4), range(4))]
    for first, second in itertools.product(firsts, choices):
        yield from tensors(first, second, most_data=4)


def three_tensors(kind):
    choices = [described(k, *rest) for k, *rest in
               itertools.product(("U8", "F4"), [(), (0,), (1,), (2,)], range(3), range(3))]
    firsts = [described(kind, *rest) for rest in itertools.product([(), (0,), (1,), (2,)], range(3), range(3))]
    for entries in itertools.product(firsts, choices, choices):
        yield from tensors(*entries, most_data=2)


# Sizes and offsets at the edges of 64 bits, and products of them that wrap around.
EDGES = [0, 1, 2, 8, 2**31, 2**32, 2**32 + 1, 2**61, 2**61 - 1, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1, 2**64]


def edges(kind):
    for shape, begin, end in itertools.product(shapes(range(4), EDGES), [0, 1], EDGES):
        yield file_of(f'{{"a":{described(kind, shape, begin, end)}}}', b"")
    for first, second in itertools.product(itertools.product([0, *EDGES[-5:]], repeat=2), repeat=2):
        yield from tensors(described(kind, (0,), *first), described(kind, (first[1],), *second), most_data=1)


TOKENS = ["{", "}", "[", "]", ":", ",", '"a"', '"dtype"', '"shape"', '"data_offsets"', '"__metadata__"', '"U8"', "0", "1",
          "-1", "1.5", "1e999", "true", "null", " ", "[0,1]", '"\\ud800"', '"d\\u0074ype"', '"a":"a"', '"a":["U8",[0],[0,0]]']
WHOLE = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
# Where a sequence stands: the text before and after it, and the bytes of data.
PLACES = {
    "header": ("", "", 0),
    "member": ("{", "}", 0),
    "entry": ('{"a":', "}", 0),
    "fields": ('{"a":{"dtype":"U8","shape":[1]', "}}", 1),
    "dtype": ('{"a":{"dtype":', ',"shape":[1],"data_offsets":[0,1]}}', 1),
    "shape": ('{"a":{"dtype":"U8","shape":', ',"data_offsets":[0,1]}}', 1),
    "offsets": ('{"a":{"dtype":"U8","shape":[1],"data_offsets":', "}}", 1),
    "unknown": ('{"a":{"x":', ',"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
    "metadata": ('{"__metadata__":', f",{WHOLE}}}", 1),
    "pairs": ('{"__metadata__":{', f"}},{WHOLE}}}", 1),
    "behind": (f"{{{WHOLE}", "}", 1),
}


def sequences(place, first, length):
    before, after, data = PLACES[place]
    before += "".join(first)
    data = bytes(data)
    for rest in itertools.product(TOKENS, repeat=length - len(first)):
        yield file_of(before + "".join(rest) + after, data)


def token_tasks(most):
    for place, length in itertools.product(PLACES, range(most + 1)):
        for first in itertools.product(TOKENS, repeat=min(length, max(0, most - 2))):
            yield ("tokens", sequences, (place, first, length))


def file_tasks():
    for kind in ("F4", "F6_E2M3", "U8", "F32"):
        yield ("one tensor", one_tensor, (kind,))
        yield ("edges of 64 bits", edges, (kind,))
    for kind in ("U8", "F4"):
        yield ("two tensors", two_tensors, (kind,))
        yield ("three tensors", three_tensors, (kind,))


def compare_files(library, files):
    cases, wrong = 0, []
    for file in files:
        for mode in FLAGS:
            cases += 1
            expected, said = model.verdict(file, mode), library.verdict(file, mode)
            if said == expected or type(said) is tuple and expected in said:
                continue
            wrong.append(f"{file!r} mode {mode}: the model says {expected}, the library {said}")
    return cases, wrong


# ---- slices ---------------------------------------------------------------------------------------------------------

POSITIONS = range(-4, 5)
EVERY_PART = list(itertools.product(POSITIONS, POSITIONS, [step for step in POSITIONS if step]))  # begin, end, step
BITS = {"F4": 4, "U8": 8, "F16": 16, "F32": 32, "F64": 64}
MOST_SLICES = 20_000  # of a shape; more are sampled, except in two dimensions of bytes and of half bytes


def slice_tasks(most):
    """Shapes of up to `most` elements in one to three dimensions. In several dimensions, none is longer than 9: beyond
    the positions, they behave alike."""
    for rank in (1, 2, 3):
        for shape in shapes([rank], range(min(most, most if rank == 1 else 9) + 1)):
            if math.prod(shape) <= most:
                for kind in BITS:
                    yield ("slices", compare_slices, (kind, shape))


def some_slices(kind, shape, most, chance):
    complete = len(shape) == 1 or len(shape) == 2 and BITS[kind] <= 8
    limit = min(most or math.inf, math.inf if complete else MOST_SLICES)
    if len(EVERY_PART) ** len(shape) <= limit:
        return itertools.product(EVERY_PART, repeat=len(shape))
    return (tuple(chance.choice(EVERY_PART) for _ in shape) for _ in range(limit))


def compare_slices(library, kind, shape, most, chance):
    bits = BITS[kind]
    elements = math.prod(shape)
    if elements * bits % 8:
        return 0, []  # no such tensor
    data = chance.randbytes(elements * bits // 8)
    file = file_of(f'{{"a":{described(kind, shape, 0, len(data))}}}', data)
    assert library.open(file, model.DEFAULT) == 0
    tensor = library.so.st_get_tensor_at(library.out, 0)
    numbers = ctypes.c_int64 * len(shape)
    cases, wrong = 0, []
    into = ctypes.create_string_buffer(len(data) + 8)
    for parts in some_slices(kind, shape, most, chance):
        begins, ends, steps = zip(*parts)
        picked = model.slice_of(shape, begins, ends, steps)
        size = (len(picked) * bits + 7) // 8
        status = library.so.st_tensor_read_slice(tensor, numbers(*begins), numbers(*ends), numbers(*steps), into, size, None)
        cases += 1
        if bits >= 8:
            step = bits // 8
            right = status == 0 and into.raw[:size] == b"".join(data[i * step:(i + 1) * step] for i in picked)
        else:
            right = halves_agree(data, picked, status, into.raw[:size])
        if not right:
            wrong.append(f"{kind} {shape} {parts}: status {status}, {into.raw[:size]!r} instead of elements {picked}")
    library.so.st_free(library.out)
    return cases, wrong


def halves_agree(data, picked, status, read):
    """Elements of 4 bits: only pairs that lie together in a byte can be read; anything else is ST_ERR_MISALIGNED."""
    pairs = list(zip(picked[::2], picked[1::2]))
    whole = len(picked) % 2 == 0 and all(a % 2 == 0 and b == a + 1 for a, b in pairs)
    if not whole:
        return status == 309
    return status == 0 and read == bytes(data[a // 2] for a, _ in pairs)


# ---- running --------------------------------------------------------------------------------------------------------

def sample(cases, most, chance):
    """At most that many of the cases, each with the same chance."""
    kept = []
    for i, case in enumerate(cases):
        if len(kept) < most:
            kept.append(case)
        elif (at := chance.randrange(i + 1)) < most:
            kept[at] = case
    return kept


def run(task):
    number, (family, make, arguments), settings = task
    library = Library(settings.library)
    chance = random.Random(f"{settings.seed} {number}")
    if family == "slices":
        return family, *compare_slices(library, *arguments, settings.most, chance)
    files = make(*arguments)
    return family, *compare_files(library, sample(files, settings.most, chance) if settings.most else files)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--tokens", type=int, default=5)
    parser.add_argument("--slices", type=int, default=24)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    settings = parser.parse_args()
    tasks = [*file_tasks(), *slice_tasks(settings.slices), *token_tasks(settings.tokens)]
    counts, differences = collections.Counter(), 0
    with multiprocessing.Pool(settings.jobs) as pool:
        for family, cases, wrong in pool.imap_unordered(run, [(i, task, settings) for i, task in enumerate(tasks)]):
            counts[family] += cases
            differences += len(wrong)
            for line in wrong[:SHOWN]:
                print(line, flush=True)
    for family, cases in counts.items():
        print(f"{family:18} {cases:12,}")
    print(f"{'in all':18} {sum(counts.values()):12,} cases, {differences} differences")
    return 1 if differences or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
