#!/usr/bin/env python3
"""One load by a Python package, one line about it, as bench_read's other loaders print it.

  loaders.py safetensors|runai all|tenth|column:TENSOR FILE...
SPDX-License-Identifier: Apache-2.0
"""
import json
import resource
import sys
import time

import numpy
import xxhash


def by_safetensors(what, paths):
    import safetensors
    import safetensors.numpy

    if what == "all":
        return [pair for path in paths for pair in safetensors.numpy.load_file(path).items()]
    loaded, number = [], 0
    for path in paths:
        with safetensors.safe_open(path, "np") as file:
            for name in file.offset_keys():
                if what == f"column:{name}":
                    part = file.get_slice(name)
                    columns = part.get_shape()[1]
                    loaded.append((name, part[:, columns // 4:columns // 2]))
                elif what == "tenth" and number % 10 == 5:
                    loaded.append((name, file.get_tensor(name)))
                number += 1
    return loaded


def by_runai(what, paths):
    from runai_model_streamer import SafetensorsStreamer

    if what != "all":
        raise SystemExit("it has no part of a file")
    with SafetensorsStreamer() as streamer:
        streamer.stream_files(list(paths))
        # What it hands out lies in its own buffer, which it uses again: a copy is what stays.
        return [(name, tensor.numpy().copy()) for name, tensor in streamer.get_tensors()]


def usage():
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/io") as file:
        io = dict(line.split(": ") for line in file)
    return {"seconds": time.perf_counter(), "cpu": used.ru_utime + used.ru_stime, "faults": used.ru_minflt + used.ru_majflt,
            "disk": int(io["read_bytes"]), "read": int(io["rchar"])}


def main():
    load = {"safetensors": by_safetensors, "runai": by_runai}[sys.argv[1]]
    load("none", [])if sys.argv[1] == "safetensors" else __import__("runai_model_streamer")  # importing is not loading
    before = usage()
    loaded = load(sys.argv[2], sys.argv[3:])
    after = usage()
    cost = {key: after[key] - before[key] for key in before}
    checksum = 0
    for name, array in loaded:
        data = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
        checksum += xxhash.xxh3_64_intdigest(data) * (xxhash.xxh3_64_intdigest(name.encode()) | 1)
    cost["bytes"] = sum(array.nbytes for _, array in loaded)
    cost["checksum"] = f"{checksum % 2**64:016x}"
    print(json.dumps(cost))


main()
