"""Writes a checkpoint with GPT-2's real layout: 160 F32 tensors, 548,090,880 data bytes, all of them numbers that
demo.c can foretell.

Value j of the tensor at place t is pattern((j + 977 t) mod 65536): never zero, exact in F32, and different in every
tensor, so that a reader which is off by one value or one tensor is found out.
usage: make_gpt2.py FILE

SPDX-License-Identifier: Apache-2.0
"""
import array
import json
import math
import struct
import sys

PERIOD, STEP = 65536, 977


def layout():
    block = {"ln_1.weight": [768], "ln_1.bias": [768], "attn.bias": [1, 1, 1024, 1024],
             "attn.c_attn.weight": [768, 2304], "attn.c_attn.bias": [2304], "attn.c_proj.weight": [768, 768],
             "attn.c_proj.bias": [768], "ln_2.weight": [768], "ln_2.bias": [768], "mlp.c_fc.weight": [768, 3072],
             "mlp.c_fc.bias": [3072], "mlp.c_proj.weight": [3072, 768], "mlp.c_proj.bias": [768]}
    tensors = {"wte.weight": [50257, 768], "wpe.weight": [1024, 768], "ln_f.weight": [768], "ln_f.bias": [768]}
    tensors.update({f"h.{i}.{name}": shape for i in range(12) for name, shape in block.items()})
    return sorted(tensors.items())  # the writer's order among tensors of one dtype


def header(tensors):
    entries, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        begin, end = end, end + 4 * math.prod(shape)
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


values = array.array("f", ((2 * k + 1) / PERIOD - 1.0 for k in range(PERIOD)))
if sys.byteorder == "big":
    values.byteswap()
pattern = values.tobytes()

tensors = layout()
with open(sys.argv[1], "wb") as file:
    file.write(header(tensors))
    for place, (_, shape) in enumerate(tensors):
        turn = place * STEP % PERIOD * 4
        turned = memoryview(pattern[turn:] + pattern[:turn])
        left = 4 * math.prod(shape)
        while left > 0:
            left -= file.write(turned[:left])
