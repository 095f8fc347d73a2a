#!/usr/bin/env python3
"""Writes the files that bench_open opens: headers of real models and invented ones, and headers made to hurt.

The data of every file is a hole, so that a checkpoint of 700 GB takes a few KiB of disk. The tables of real models are
facts about published checkpoints. Beside each file of the usual kind lies the same table in bintensors' own format.
What was written is listed in manifest.tsv, which is all that the programs here know about the cases; the verdicts
in it say what docs/format.md wants, so that a benchmark of a wrong reader fails.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import random
import struct
from pathlib import Path

VERSION = "4"  # of the cases: another one rewrites them

# In the order of the reference's writer, which puts the last first: (bits, code in bintensors).
DTYPES = {
    "BOOL": (8, 0), "U8": (8, 1), "I8": (8, 2), "F8_E5M2": (8, 3), "F8_E4M3": (8, 4), "I16": (16, 5), "U16": (16, 6),
    "F16": (16, 7), "BF16": (16, 8), "I32": (32, 9), "U32": (32, 10), "F32": (32, 11), "F64": (64, 12),
    "I64": (64, 13), "U64": (64, 14),
}
RANK = {name: i for i, name in enumerate(DTYPES)}
HEADER_LIMIT = 100_000_000


def tensor_bytes(dtype, shape):
    size = DTYPES[dtype][0] // 8
    for dim in shape:
        size *= dim
    return size


# ---- layouts: lists of (name, dtype, shape) -------------------------------------------------------------------------

def linear(name, dtype, rows, columns, bias=True):
    return [(f"{name}.weight", dtype, [rows, columns])] + ([(f"{name}.bias", dtype, [rows])] if bias else [])


def norm(name, dtype, width, bias=True):
    return [(f"{name}.{part}", dtype, [width]) for part in (("weight", "bias") if bias else ("weight",))]


def gpt2():
    width = 768
    tensors = [("wte.weight", "F32", [50257, width]), ("wpe.weight", "F32", [1024, width])] + norm("ln_f", "F32", width)
    for i in range(12):
        h = f"h.{i}."
        tensors += norm(h + "ln_1", "F32", width) + norm(h + "ln_2", "F32", width)
        tensors.append((h + "attn.bias", "F32", [1, 1, 1024, 1024]))
        for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                    ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            tensors += [(h + name + ".weight", "F32", [rows, columns]), (h + name + ".bias", "F32", [columns])]
    assert len(tensors) == 160 and sum(tensor_bytes(t[1], t[2]) for t in tensors) == 548_090_880
    return tensors


def sdxl():
    """One file of 2,515 tensors with long names; shapes of the real blocks, fewer kinds of them."""
    tensors = []
    for block in range(9):
        for part in range(2):
            p = f"model.diffusion_model.input_blocks.{block}.{part}."
            tensors += norm(p + "in_layers.0", "F16", 320) + linear(p + "emb_layers.1", "F16", 320, 1280)
            for conv in ("in_layers.2", "out_layers.3"):
                tensors += [(p + conv + ".weight", "F16", [320, 320, 3, 3]), (p + conv + ".bias", "F16", [320])]
    n = 0
    while len(tensors) < 2300:
        p = f"model.diffusion_model.output_blocks.{n % 9}.1.transformer_blocks.{n // 9}."
        for attention, context in (("attn1", 1280), ("attn2", 2048)):
            q = p + attention
            tensors += linear(q + ".to_q", "F16", 1280, 1280, False) + linear(q + ".to_out.0", "F16", 1280, 1280)
            tensors += linear(q + ".to_k", "F16", 1280, context, False) + linear(q + ".to_v", "F16", 1280, context, False)
        tensors += linear(p + "ff.net.0.proj", "F16", 10240, 1280) + linear(p + "ff.net.2", "F16", 1280, 5120)
        tensors += [t for j in (1, 2, 3) for t in norm(f"{p}norm{j}", "F16", 1280)]
        n += 1
    text_model = "conditioner.embedders.0.transformer.text_model."
    for i in range(12):
        p = f"{text_model}encoder.layers.{i}."
        for name in ("k_proj", "out_proj", "q_proj", "v_proj"):
            tensors += linear(f"{p}self_attn.{name}", "F16", 768, 768)
        tensors += norm(p + "layer_norm1", "F16", 768) + norm(p + "layer_norm2", "F16", 768)
        tensors += linear(p + "mlp.fc1", "F16", 3072, 768) + linear(p + "mlp.fc2", "F16", 768, 3072)
    tensors.append((text_model + "embeddings.position_ids", "I64", [1, 77]))
    for name, rows, columns in (("time_embed.0", 1280, 320), ("time_embed.2", 1280, 1280), ("label_emb.0.0", 1280, 2816),
                                ("label_emb.0.2", 1280, 1280)):
        tensors += linear("model.diffusion_model." + name, "F16", rows, columns)
    tensors += norm("model.diffusion_model.out.0", "F16", 320)
    for name, outputs, inputs, kernel in (("model.diffusion_model.input_blocks.0.0", 320, 4, 3), ("model.diffusion_model.out.2", 4, 320, 3),
                                          ("first_stage_model.quant_conv", 8, 8, 1), ("first_stage_model.post_quant_conv", 4, 4, 1)):
        tensors += [(name + ".weight", "F16", [outputs, inputs, kernel, kernel]), (name + ".bias", "F16", [outputs])]
    assert len(tensors) == 2515
    return tensors


def quantised(name, rows, columns):
    """E4M3 with one F32 scale per block of 128 x 128."""
    return [(name + ".weight", "F8_E4M3", [rows, columns]),
            (name + ".weight_scale_inv", "F32", [-(-rows // 128), -(-columns // 128)])]


def gated(name, width, inner):
    return (quantised(name + ".gate_proj", inner, width) + quantised(name + ".up_proj", inner, width)
            + quantised(name + ".down_proj", width, inner))


def deepseek_v3():
    """61 layers and one for multi-token prediction; the first 3 dense, the others 256 + 1 experts."""
    width, words, heads, query, latent, nope, rope, value = 7168, 129280, 128, 1536, 512, 128, 64, 128
    tensors = [("model.embed_tokens.weight", "BF16", [words, width])]
    for i in range(62):
        p = f"model.layers.{i}."
        for name, size in (("input_layernorm", width), ("post_attention_layernorm", width),
                           ("self_attn.q_a_layernorm", query), ("self_attn.kv_a_layernorm", latent)):
            tensors += norm(p + name, "BF16", size, False)
        for name, rows, columns in (("q_a_proj", query, width), ("q_b_proj", heads * (nope + rope), query),
                                    ("kv_a_proj_with_mqa", latent + rope, width),
                                    ("kv_b_proj", heads * (nope + value), latent), ("o_proj", width, heads * value)):
            tensors += quantised(f"{p}self_attn.{name}", rows, columns)
        if i < 3:
            tensors += gated(p + "mlp", width, 18432)
        else:
            tensors += [(p + "mlp.gate.weight", "BF16", [256, width]), (p + "mlp.gate.e_score_correction_bias", "F32", [256])]
            for expert in range(256):
                tensors += gated(f"{p}mlp.experts.{expert}", width, 2048)
            tensors += gated(p + "mlp.shared_experts", width, 2048)
        if i == 61:
            tensors += [(p + "eh_proj.weight", "BF16", [width, 2 * width]), (p + "embed_tokens.weight", "BF16", [words, width]),
                        (p + "shared_head.head.weight", "BF16", [words, width])]
            for name in ("enorm", "hnorm", "shared_head.norm"):
                tensors += norm(p + name, "BF16", width, False)
    tensors += norm("model.norm", "BF16", width, False) + [("lm_head.weight", "BF16", [words, width])]
    assert len(tensors) == 91_991
    return tensors


def short_names(count):
    """weight0, weight1 ...: F32 [1000,500], the table of bintensors' own benchmark."""
    return [(f"weight{i}", "F32", [1000, 500]) for i in range(count)]


def long_names(count):
    """Long dotted names, mixed dtypes and ranks."""
    kinds = [("BF16", [64, 64]), ("F32", [64]), ("F8_E4M3", [128, 128]), ("F32", [1, 1]), ("I64", [8]), ("F16", [3, 5, 7, 2])]
    parts = ("weight", "weight_scale_inv", "zeros", "g_idx", "bias", "perm")
    projections = ("gate_proj", "up_proj", "down_proj")
    tensors = []
    for i in range(count):
        expert, part = divmod(i, 18)
        layer, expert = divmod(expert, 256)
        name = f"model.layers.{layer}.mlp.experts.{expert}.{projections[part // 6]}.{parts[part % 6]}"
        tensors.append((name, *kinds[part % 6]))
    return tensors


def experts(count, dtypes, shapes):
    """Two tensors per projection of an expert. The i-th tensor has the i-th dtype and shape of these lists, in turns."""
    tensors = []
    for i in range(count):
        expert, part = divmod(i, 6)
        layer, expert = divmod(expert, 256)
        projection = ("gate_proj", "up_proj", "down_proj")[part // 2]
        name = f"model.layers.{layer}.mlp.experts.{expert}.{projection}.{('weight', 'weight_scale_inv')[part % 2]}"
        tensors.append((name, dtypes[i % len(dtypes)], shapes[i % len(shapes)]))
    return tensors


def split(tensors, limit):
    """In the order given, greedy, as hub libraries cut a model into shards."""
    shards, size = [[]], 0
    for tensor in tensors:
        more = tensor_bytes(tensor[1], tensor[2])
        if shards[-1] and size + more > limit:
            shards.append([])
            size = 0
        shards[-1].append(tensor)
        size += more
    return shards


# ---- writing --------------------------------------------------------------------------------------------------------

def write(path, header, data_bytes):
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(header)))
        out.write(header)
        out.truncate(8 + len(header) + data_bytes)
    return len(header)


def in_order_of_the_reference(tensors):
    return sorted(tensors, key=lambda t: (-RANK[t[1]], t[0]))


COMPACT = {"separators": (",", ":")}


def write_safetensors(path, tensors, metadata=None, fields=("dtype", "shape", "data_offsets"), spelling=COMPACT):
    """In the order given. `spelling` is for json.dumps."""
    header, end = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape in tensors:
        begin, end = end, end + tensor_bytes(dtype, shape)
        entry = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        header[name] = {field: entry[field] for field in fields}
    text = json.dumps(header, **spelling).encode()
    return write(path, text + b" " * (-len(text) % 8), end)


def varint(value):
    if value <= 250:
        return bytes([value])
    for tag, code, limit in ((0xFB, "<BH", 1 << 16), (0xFC, "<BI", 1 << 32), (0xFD, "<BQ", 1 << 64)):
        if value < limit:
            return struct.pack(code, tag, value)
    raise OverflowError(value)


def write_bintensors(path, tensors):
    out, end = [b"\0" + varint(len(tensors))], 0
    for name, dtype, shape in sorted(tensors, key=lambda t: (-DTYPES[t[1]][1], t[0])):
        begin, end = end, end + tensor_bytes(dtype, shape)
        text = name.encode()
        out.append(varint(len(text)) + text)
        out += map(varint, (DTYPES[dtype][1], len(shape), *shape, begin, end))
    header = b"".join(out)
    return write(path, header + b" " * (-len(header) % 8), end)


# ---- headers made to hurt: (header, bytes of data, our verdict, the reference's, tensors) -------------------------------

def entries_until_full(entry_of, names):
    """One object of as many entries as fit."""
    parts, size = [], 2
    for i, name in enumerate(names):
        entry = entry_of(i, name)
        if size + len(entry.encode()) + 1 > HEADER_LIMIT - 1_000_000:
            break
        parts.append(entry)
        size += len(entry.encode()) + 1
    return ("{" + ",".join(parts) + "}").encode(), len(parts)


def empty_tensor(_, name):
    return f'"{name}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'


def many_tensors():
    """One byte each, in random order, so that they have to be sorted."""
    count = 1_330_000
    order = list(range(count))
    random.Random(1).shuffle(order)
    header, written = entries_until_full(
        lambda _, i: f'"{i:x}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}', order)
    assert written == count
    return header, count, "ST_OK", "ok", count


def many_empty_tensors():
    """All of them at 0..0: only their names tell them apart."""
    order = list(range(1_630_000))
    random.Random(2).shuffle(order)
    header, written = entries_until_full(empty_tensor, (f"{i:07x}" for i in order))
    return header, 0, "ST_OK", "ok", written


def long_shape():
    dims = ",".join(["1"] * 49_000_000)
    return f'{{"x":{{"dtype":"U8","shape":[{dims}],"data_offsets":[0,1]}}}}'.encode(), 1, "ST_OK", "ok", 1


def ignored_field():
    objects = ",".join(["{}"] * 33_000_000)
    return f'{{"x":{{"dtype":"U8","shape":[1],"data_offsets":[0,1],"y":[{objects}]}}}}'.encode(), 1, "ST_OK", "ok", 1


def one_name():
    header, _ = entries_until_full(empty_tensor, ("a" for _ in range(3_000_000)))
    return header, 0, "ST_ERR_DUPLICATE", "ok", 1


def spaces_after():
    return b"{}" + b" " * (HEADER_LIMIT - 2), 0, "ST_OK", "ok", 0


def only_spaces():
    return b" " * HEADER_LIMIT, 0, "ST_ERR_JSON", "refused", 0


def choices(first, second, bits):
    """The 2^bits names made of `bits` times either block, in random order."""
    order = list(range(1 << bits))
    random.Random(3).shuffle(order)
    for i in order:
        yield "".join(second if i >> bit & 1 else first for bit in range(bits))


def colliding_31():
    """One hash for all where h = 31 h + c, since 'Aa' and 'BB' have the same."""
    header, written = entries_until_full(empty_tensor, choices("Aa", "BB", 20))
    assert written == 1 << 20
    return header, 0, "ST_OK", "ok", written


def colliding_murmur():
    """One hash for all where words are mixed as in MurmurHash64A, for any seed: so it is in std::hash of libstdc++.

    A word that flips only the top bit of what is xored in flips only the top bit of the product; the next such word
    flips it back. Few words have such a partner that is UTF-8 too.
    """
    multiplier = 0xC6A4A7935BD1E995
    mask, inverse = (1 << 64) - 1, pow(multiplier, -1, 1 << 64)

    def partner_of(word):
        mixed = int.from_bytes(word, "little") * multiplier & mask
        mixed = ((mixed ^ mixed >> 47) * multiplier & mask) ^ 1 << 63
        back = mixed * inverse & mask
        return ((back ^ back >> 47) * inverse & mask).to_bytes(8, "little").decode(errors="replace")

    words = (bytes([a, b]) + b" g\xc2\x80  " for a in range(ord("a"), ord("z")) for b in range(ord("a"), ord("z")))
    word, partner = next((w.decode(), partner_of(w)) for w in words if "\ufffd" not in partner_of(w))
    header, written = entries_until_full(empty_tensor, choices(word * 2, partner * 2, 18))
    assert written == 1 << 18
    return header, 0, "ST_OK", "ok", written


def long_prefix():
    """Names that differ only in the last bytes, all at 0..0: every comparison of two runs to the end."""
    order = list(range(24_000))
    random.Random(5).shuffle(order)
    header, written = entries_until_full(empty_tensor, ("p" * 4000 + f"{i:06d}" for i in order))
    return header, 0, "ST_OK", "ok", written


# ---- the cases ----------------------------------------------------------------------------------------------------------

def usual_cases():
    yield "gpt2", gpt2(), {"format": "pt"}
    yield "sdxl", sdxl(), {"modelspec.title": "SDXL-like", "modelspec.sai_model_spec": "1.0.0", "modelspec.hash_sha256": "0x" + "0" * 64}
    for count in (500, 1000, 10_000, 100_000):
        yield f"{count}_short", short_names(count), None
        yield f"{count}_long", long_names(count), None


def spelled_cases():
    """(name, tensors, arguments of write_safetensors): headers in which neighbours differ, and spellings of other writers.

    All except sdxl_by_name have the names of `one_dtype`.
    """
    for count in (1000, 10_000, 100_000):
        # Shapes in pairs, so that the headers of the first two differ in their dtypes and offsets only.
        shapes = [[2048, 7168], [16, 56]]
        yield f"{count}_one_dtype", experts(count, ["BF16"], shapes), {}
        yield f"{count}_dtypes", experts(count, ["F8_E4M3", "F32"], shapes), {}
    count = 10_000
    yield f"{count}_ranks", experts(count, ["F16"], [[320, 320, 3, 3], [320], [1280, 2048], [1280], [], [1, 1, 77]]), {}
    usual = experts(count, ["BF16"], [[2048, 7168], [16, 56]])
    by_name = {"fields": ("data_offsets", "dtype", "shape")}  # MLX, and others that write a sorted map
    yield f"{count}_by_name", usual, by_name
    yield f"{count}_backwards", usual, {"fields": ("data_offsets", "shape", "dtype")}
    yield f"{count}_spaced", usual, {"spelling": {}}  # torch's DCP, and others that use Python's json
    yield f"{count}_pretty", usual, {"spelling": {"indent": 2}}
    yield f"{count}_pretty_by_name", usual, {"spelling": {"indent": 4}, **by_name}
    yield "sdxl_by_name", sorted(sdxl()), by_name


HOSTILE = (many_tensors, many_empty_tensors, long_shape, ignored_field, one_name, spaces_after, only_spaces,
           colliding_31, colliding_murmur, long_prefix)


def write_usual(folder):
    for name, tensors, metadata in usual_cases():
        path = f"{name}.safetensors"
        size = write_safetensors(folder / path, in_order_of_the_reference(tensors), metadata)
        write_bintensors(folder / f"{name}.bt", tensors)
        yield "open", name, path, len(tensors), size, "ST_OK", "ok"
    for name, tensors, how in spelled_cases():
        path = f"{name}.safetensors"
        yield "open", name, path, len(tensors), write_safetensors(folder / path, tensors, **how), "ST_OK", "ok"
    shards = split(deepseek_v3(), 4_300_000_000)
    assert len(shards) == 161
    name = "deepseek_v3"
    (folder / name).mkdir(exist_ok=True)
    size, weight_map = 0, {}
    for i, tensors in enumerate(shards):
        file = f"model-{i + 1:05d}-of-{len(shards):06d}.safetensors"
        size += write_safetensors(folder / name / file, in_order_of_the_reference(tensors))
        weight_map.update((tensor[0], file) for tensor in tensors)
    total = sum(tensor_bytes(t[1], t[2]) for t in sum(shards, []))
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / name / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    yield "shards", name, name, len(weight_map), size, "ST_OK", "ok"


def write_hostile(folder):
    for make in HOSTILE:
        header, data_bytes, ours, reference, tensors = make()
        path = f"hostile_{make.__name__}.safetensors"
        yield "hostile", make.__name__, path, tensors, write(folder / path, header, data_bytes), ours, reference


def write_manifest(folder, name, rows):
    """A list that is complete is not made again."""
    path = folder / name
    first = f"# {VERSION}\tname\tpath\ttensors\theader_bytes\tours\treference\n"
    if path.exists() and path.read_text().startswith(first):
        return
    path.unlink(missing_ok=True)
    lines = ["\t".join(map(str, row)) + "\n" for row in rows]
    path.write_text(first + "".join(lines))


def main():
    arguments = argparse.ArgumentParser(description="Writes the files that bench_open opens.")
    arguments.add_argument("folder", type=Path, nargs="?", default=Path("build/bench-data"))
    arguments.add_argument("--hostile", action="store_true", help="also the headers of 99 MB for --memory (900 MB of disk)")
    options = arguments.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    write_manifest(options.folder, "manifest.tsv", write_usual(options.folder))
    if options.hostile:
        write_manifest(options.folder, "hostile.tsv", write_hostile(options.folder))


if __name__ == "__main__":
    main()
