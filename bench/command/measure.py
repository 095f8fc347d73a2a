"""How long the command takes beside what the machine can do: the page cache read by one thread, SHA-256 of the C library of
Python, a copy by the kernel. All in one run, each the best of several.

    measure.py SAFETENSORS MODEL.safetensors [FOLDER_OF_SHARDS]

MODEL should be in the page cache: it is read once before. Results of `merge` go beside it, and are removed.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import os
import subprocess
import sys
import time

ROUNDS = int(os.environ.get("ST_BENCH_ROUNDS", "5"))


def best(work):
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def command(*arguments):
    return lambda: subprocess.run([SAFETENSORS, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def read_all():
    buffer = bytearray(4 << 20)
    with open(MODEL, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def hash_all():
    digest, buffer = hashlib.sha256(), bytearray(4 << 20)
    with open(MODEL, "rb", buffering=0) as file:
        while n := file.readinto(buffer):
            digest.update(memoryview(buffer)[:n])


def copy_all():
    with open(MODEL, "rb") as source, open(COPY, "wb") as target:
        left, at = os.path.getsize(MODEL), 0
        while left:
            n = os.copy_file_range(source.fileno(), target.fileno(), left, at, at)
            left, at = left - n, at + n
    os.remove(COPY)


def merge():
    command("merge", MODEL, COPY)()
    os.remove(COPY)


SAFETENSORS, MODEL = sys.argv[1:3]
COPY = os.path.join(os.path.dirname(os.path.abspath(MODEL)), f"copy-{os.getpid()}.safetensors")
size = os.path.getsize(MODEL)
read_all()
roofs = {"read": best(read_all), "hash": best(hash_all), "copy": best(copy_all)}
for name, seconds in roofs.items():
    print(f"{name + ' (roof)':16} {size / seconds / 1e9:6.2f} GB/s")
for name, roof, work in [("hash", "hash", command("hash", MODEL)), ("verify --values", "read", command("verify", "--values", MODEL)),
                         ("stats", "read", command("stats", MODEL)), ("diff", "read", command("diff", MODEL, MODEL)),
                         ("merge", "copy", merge)]:
    seconds = best(work)
    print(f"{name:16} {size / seconds / 1e9:6.2f} GB/s, {roofs[roof] / seconds:4.2f} of the {roof} roof")
if len(sys.argv) > 3:
    print(f"show of {sys.argv[3]}: {best(command('show', sys.argv[3])) * 1000:.0f} ms, "
          f"--json {best(command('show', sys.argv[3], '--json')) * 1000:.0f} ms, "
          f"verify {best(command('verify', sys.argv[3])) * 1000:.0f} ms")
