#!/bin/sh
# How far is the command from what the disk cache and the processor can do? usage: run.sh BUILD
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(dirname "$0")
folder=build/bench-data/command
mkdir -p "$folder"
[ -f "$folder/model.safetensors" ] || python3 - "$folder/model.safetensors" <<'END'
import json, os, sys
size, count = 8 << 20, 64
header = {f"layers.{i}.weight": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [i * size, (i + 1) * size]} for i in range(count)}
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text)
    for _ in range(count):
        file.write(os.urandom(size))
END
shards=build/bench-data/deepseek_v3
[ -d $shards ] || shards=
exec python3 "$here/measure.py" "$1/cli/safetensors" "$folder/model.safetensors" $shards
