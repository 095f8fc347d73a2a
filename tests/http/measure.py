"""Measures libsafetensors-http; no test. usage: ST_LIBRARY=... ST_HTTP_LIBRARY=... measure.py [MEBIBYTES]

1. Opens 161 shards of a server that waits 50 ms before each answer.
2. Reads rows, and 64 and 2,048 of 4,096 columns of F32 from that server, with gaps and without.
3. Reads one file from nginx by TLS: a plan, next to 16 curl processes that read a sixteenth each. In turns, medians.

SPDX-License-Identifier: Apache-2.0
"""
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time

import library
import nginx
from library import File, data_of, model, simple
from server import Server

DELAY = 0.05
SHARDS = 161
ROUNDS = 3


def opening():
    server = Server(delay=DELAY)
    names = [f"m-{i:05}-of-{SHARDS:05}.safetensors" for i in range(1, SHARDS + 1)]
    for i, name in enumerate(names):
        server.files["/" + name] = model({f"t{i}.{k}": ((16,), data_of(16)) for k in range(20)}, 60_000)
    server.files["/m.index.json"] = json.dumps({"weight_map": {f"t{i}.{k}": name for i, name in enumerate(names)
                                                               for k in range(20)}}).encode()
    index = len(server.files["/m.index.json"])
    limit = 1.3 * DELAY * math.ceil(SHARDS / 16)
    times = []
    for _ in range(ROUNDS):
        server.requests.clear()
        server.bodies = 0
        began = time.perf_counter()
        file = File(server.url("/m.index.json"))
        times.append(time.perf_counter() - began)
        file.__exit__()
    of_shards = [request for request in server.requests if "index" not in request.path]
    print(f"open: {SHARDS} shards, {DELAY * 1000:.0f} ms per request: median {statistics.median(times):.3f} s, best "
          f"{min(times):.3f} s, of {ROUNDS}; 1.3 x RTT x ceil({SHARDS}/16) = {limit:.3f} s, to which the index of {index} "
          f"bytes adds {DELAY * (len(server.requests) - len(of_shards)):.3f} s")
    print(f"      {len(of_shards)} requests for shards, {len(server.requests) - len(of_shards)} for the index, "
          f"{server.bodies:,} bytes")
    server.stop()


def slices():
    rows, width = 1024, 16384
    data = data_of(rows * width)
    server = Server(delay=DELAY)
    server.files["/m.safetensors"] = model({"t": ((rows, width), data)})
    for what, begin, end in (("100 rows", [100, 0], [200, width]), ("64 columns", [0, 0], [rows, 256]),
                             ("2,048 columns", [0, 0], [rows, width // 2])):
        size = (end[0] - begin[0]) * (end[1] - begin[1])
        for gap_bytes in (0, 1):
            with File(server.url("/m.safetensors"), gap_bytes=gap_bytes) as file:
                server.requests.clear()
                server.bodies = 0
                began = time.perf_counter()
                got = file.plan(ranges={"t": (begin, end, size)})["t"]
                took = time.perf_counter() - began
            assert bytes(got) == b"".join(data[row * width + begin[1]:row * width + end[1]] for row in range(begin[0], end[0]))
            print(f"slice of {what}, gap_bytes = {gap_bytes}: {size:,} bytes, {server.bodies:,} fetched "
                  f"({server.bodies / size:.2f} times), {len(server.requests)} requests, {took:.2f} s")
    server.stop()


def bulk(mebibytes):
    if nginx.missing():
        return print("bulk: skipped:", nginx.missing())
    with tempfile.TemporaryDirectory() as folder:
        server = nginx.Nginx(folder)
        size = mebibytes << 20
        content = model({f"t{i}": ((size // 16,), data_of(size // 16, i)) for i in range(16)})
        (server.files / "big.safetensors").write_bytes(content)
        part = len(content) // 16 + 1

        def by_curl():
            commands = [["curl", "-s", "--fail", "--cacert", f"{folder}/cert.pem", "-r", f"{i * part}-{(i + 1) * part - 1}",
                         "-o", f"{folder}/part{i}", server.url("big.safetensors")] for i in range(16)]
            began = time.perf_counter()
            running = [subprocess.Popen(command) for command in commands]
            assert all(process.wait() == 0 for process in running)
            return time.perf_counter() - began

        def by_plan():
            began = time.perf_counter()
            with File(server.url("big.safetensors"), flags=library.PRIVATE, ca_file=server.ca_file) as file:
                file.plan()
            return time.perf_counter() - began

        pairs = [(by_curl(), by_plan()) for _ in range(ROUNDS)]
        curl, plan = (statistics.median(column) for column in zip(*pairs))
        print(f"bulk: {mebibytes} MiB by TLS: 16 curl processes {mebibytes / curl:.0f} MiB/s, one plan "
              f"{mebibytes / plan:.0f} MiB/s: {curl / plan:.2f} times (medians of {ROUNDS} rounds in turns)")
        server.stop()


opening()
slices()
bulk(int(sys.argv[1]) if len(sys.argv) > 1 else 512)
