#!/bin/sh
# Makes a file once, and measures how long it takes to fill a device with it: a GPU if there is one, and a fake one of
# half, the same and twice the speed of the disk. usage: run.sh BUILD_FOLDER [MEBIBYTES [TENSORS]]
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1 mebibytes=${2:-512} tensors=${3:-160}
data=build/bench-data/device
file=$data/$mebibytes-$tensors.safetensors
mkdir -p "$data"
[ -e "$file" ] || python3 - "$file" "$mebibytes" "$tensors" <<'END'
import json, os, struct, sys
path, size, count = sys.argv[1], int(sys.argv[2]) << 20, int(sys.argv[3])
each = size // count
header = json.dumps({f"t{i}": {"dtype": "U8", "shape": [each], "data_offsets": [i * each, (i + 1) * each]}
                     for i in range(count)}).encode()
with open(path + ".part", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    left, block = each * count, os.urandom(1 << 20)
    while left:
        left -= file.write(block[:left])
    os.fsync(file.fileno())
os.rename(path + ".part", path)
END
"$build/bench/device/bench_device" "$file"
"$build/bench/device/bench_device" "$file" --fake "$build/bench/device/libbench_fake_cuda.so"
