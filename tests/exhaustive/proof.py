"""Proves with z3 that what validate() and slice() accept lies inside the file: for all sizes, ranks and numbers of tensors.

The formulas are those of src/format/validate.cpp, src/format/slice.cpp and merge_adjacent in src/core/read_executor.cpp,
with whole numbers. `wrapped` is what a variable of 64 bits holds, so each proof also says that nothing wraps around. A
loop is proved by induction: each of its steps keeps an invariant. This proves the formulas, not the machine code; run.py
compares the code with them at the edges of 64 bits.
SPDX-License-Identifier: Apache-2.0
"""
import sys

try:
    from z3 import And, If, Implies, Int, Ints, Not, Solver, unsat
except ImportError:
    print("z3-solver is not installed")
    sys.exit(77)

WORD = 2**64


def word(*values):
    return And(*[And(0 <= value, value < WORD) for value in values])


def wrapped(value):
    return value % WORD


def monotonic(a, b, factor):
    """a <= b implies a * factor <= b * factor: z3 is told so of the products that a proof needs."""
    return Implies(And(a <= b, factor >= 0), a * factor <= b * factor)


proved = 0


def prove(what, claim, *facts):
    global proved
    solver = Solver()
    solver.set("timeout", 20_000)
    solver.add(*facts)
    # Facts that contradict each other would prove anything.
    if solver.check() == unsat:
        sys.exit(f"the facts contradict each other: {what}")
    solver.add(Not(claim))
    result = solver.check()
    if result != unsat:
        sys.exit(f"NOT PROVED ({result}): {what}\n{solver.model() if str(result) == 'sat' else ''}")
    proved += 1
    print("proved:", what)


def checked_mul(a, b):
    """Whether it is accepted, and the product that is stored."""
    return a * b < WORD, wrapped(a * b)


# ---- validate(): a product of dimensions, a tensor, all tensors ------------------------------------------------------

product, dim, bits, expected, begin, end = Ints("product dim bits expected begin end")
accepted, stored = checked_mul(product, dim)
prove("element_count keeps the product of the dimensions so far, without overflow",
      And(stored == product * dim, word(stored)), word(product, dim), accepted)

elements = Int("elements")  # the product that the induction above has proved
accepted, stored = checked_mul(elements, bits)
size_is_right = And(accepted, stored % 8 == 0, wrapped(end - begin) == stored / 8)
place_is_right = And(begin == expected, Not(end < begin))
prove("an accepted tensor has exactly the bytes of its dtype and shape, and end - begin does not wrap",
      And(8 * (end - begin) == elements * bits, end - begin >= 0),
      word(elements, begin, end, expected), 0 < bits, bits <= 64, place_is_right, size_is_right)

# The invariant: all tensors so far lie in [0, expected) and are disjoint. `other` is any of them.
other_begin, other_end = Ints("other_begin other_end")
prove("the next tensor is disjoint from all before it, and all lie in [0, end)",
      And(begin >= other_end, other_end <= end, end <= WORD - 1, 0 <= other_begin),
      word(begin, end, expected, other_begin, other_end), other_begin <= other_end, other_end <= expected, place_is_right)

data_begin, file_size = Ints("data_begin file_size")
prove("when the last end is the end of the data, each range of the file lies inside the file, and no sum wraps",
      And(data_begin <= wrapped(data_begin + begin), wrapped(data_begin + begin) <= wrapped(data_begin + end),
          wrapped(data_begin + end) <= file_size, wrapped(data_begin + end) == data_begin + end),
      word(begin, end, expected, data_begin, file_size), data_begin <= file_size,
      expected == wrapped(file_size - data_begin), begin <= end, end <= expected)

# is_plainly_valid() multiplies in another order, and takes no empty tensor.
running, last = Ints("running last")
accepted, stored = checked_mul(running, dim)
prove("is_plainly_valid: the product of bits and dimensions does not overflow", And(stored == running * dim, word(stored)),
      word(running, dim), accepted)
prove("is_plainly_valid: an accepted tensor has exactly its bytes, and lies behind the last one",
      And(8 * (end - begin) == running, begin == last, end > begin),
      word(running, begin, end, last), begin == last, Not(end <= last), running % 8 == 0, running / 8 == wrapped(end - begin))

# ---- slice(): positions, one dimension, all dimensions ---------------------------------------------------------------

value, length, step = Ints("value length step")
signed = And(-2**63 <= value, value < 2**63)
negated = wrapped(-value)  # 0 - uint64(value)
is_first, is_last = value == -2**63, value == 2**63 - 1
clamped = If(value < length, value, length)
forward = If(is_first, 0, If(is_last, length, If(value >= 0, clamped, If(negated > length, 0, wrapped(length - negated)))))
backward = If(is_first, 0, If(is_last, length, If(value >= 0, If(value >= length, length, wrapped(value + 1)),
                                                   If(negated > length, 0, wrapped(length - negated + 1)))))
prove("a position of a positive step lies in 0..length", And(0 <= forward, forward <= length), word(length), signed)
prove("a position of a negative step, plus one, lies in 0..length", And(0 <= backward, backward <= length), word(length),
      signed, Not(And(value < 0, Not(is_first), negated == 0)))
pythons = If(value < 0, If(value + length < 0, 0, value + length), clamped)
prove("a position of a positive step is Python's", forward == pythons, word(length), signed, Not(is_first), Not(is_last))

low, high, quotient, rest = Ints("low high quotient rest")
positive = And(0 < step, step <= 2**63)
steps = And(high - low - 1 == quotient * step + rest, 0 <= rest, rest < step, quotient >= 0)  # (high - low - 1) / step
prove("ascending: the last position, low + (count - 1) * step, is below high, and nothing wraps",
      And(wrapped(low + wrapped(quotient * step)) == low + quotient * step, low + quotient * step < high,
          quotient + 1 <= length),
      word(low, high, length), high <= length, low < high, positive, steps, monotonic(1, step, quotient))
first = high - 1 - quotient * step
prove("descending: the lowest position, high - 1 - (count - 1) * step, is not below low, and nothing wraps",
      And(wrapped(high - 1 - wrapped(quotient * step)) == first, low <= first, first < length),
      word(low, high, length), high <= length, low < high, positive, steps)

# lay_out(), by induction over the dimensions from the last to the first. `extent` is the end, in bits, of what the inner
# dimensions reach from their own beginning. The invariant: extent <= stride, and the same in the destination.
stride, extent, count, total = Ints("stride extent count total")
reach = Int("reach")  # first + (count - 1) * step of this dimension
at = Int("at")  # the position of the dimension's first element
spread = Int("spread")  # (count - 1) * step
facts = [word(stride, extent, at, spread, length, total), 1 <= count, count <= length, reach == at + spread, reach <= length - 1,
         0 <= extent, extent <= stride, stride * length <= total,  # validate() has checked the tensor's size in bits
         monotonic(reach + 1, length, stride), monotonic(at, reach, stride), monotonic(spread, reach, stride),
         monotonic(count, length, stride), monotonic(0, spread, stride), monotonic(0, at, stride)]
outer = at * stride + spread * stride + extent
prove("a dimension reaches at most as far as its length times its stride", outer <= length * stride, *facts)
prove("the offsets of a slice are computed without overflow",
      And(wrapped(at * stride) == at * stride, wrapped(spread * stride) == spread * stride,
          wrapped(stride * length) == stride * length), *facts)
prove("what a dimension takes in the destination is at most what it has in the source",
      And(wrapped(count * extent) == count * extent, count * extent <= length * stride),
      word(stride, extent, length, total), 1 <= count, count <= length, 0 <= extent, extent <= stride, stride * length <= total,
      monotonic(count, length, extent), monotonic(extent, stride, length))

# ---- merge_adjacent(): one read for neighbours ------------------------------------------------------------------------

offset, length_a, length_b, dst, dst_end, i = Ints("offset length_a length_b dst dst_end i")
prove("a merged read brings each byte to the place that its own read would have brought it to",
      And(Implies(And(0 <= i, i < length_a), dst + i < dst_end),
          Implies(And(length_a <= i, i < length_a + length_b), dst + i == (dst + length_a) + (i - length_a)),
          offset + length_a + length_b < WORD),
      word(offset, length_a, length_b, dst, dst_end), dst_end == dst + length_a + length_b,
      wrapped(offset + length_a) == offset + length_a, offset + length_a + length_b < WORD)

print(f"{proved} proofs")
