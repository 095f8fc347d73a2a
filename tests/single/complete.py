"""The single file contains every source of the library, and includes only its header and headers of the system.

usage: complete.py DIRECTORY, which ./dev amalgamate wrote
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = "simdjson|fmt/|xxhash|core/|format/|io/|device/|base/"

single = pathlib.Path(sys.argv[1])
text = (single / "safetensors.cpp").read_text()
contained = set(re.findall(r"^// ==== (\S+\.[ch]pp)$", text, re.MULTILINE))
sources = {path.relative_to(ROOT).as_posix() for folder in ("src", "capi") for path in (ROOT / folder).rglob("*.[ch]pp")}
sources = {name for name in sources if "static_runtime" not in name}  # compiled only into shared libraries
faults = [f"safetensors.cpp lacks {name}" for name in sorted(sources - contained)]
faults += re.findall(rf'^[ \t]*#[ \t]*include [<"](?:{LIBRARY}).*', text, re.MULTILINE)
faults += [line for line in re.findall(r'^[ \t]*#[ \t]*include[ \t]*".*', text, re.MULTILINE) if "safetensors.h" not in line]

# Each public function has its name changed by ST_PREFIX.
header = (single / "safetensors.h").read_text()
for name in re.findall(r"^ST_API [^;(]*?\b(st_\w+)\(", header, re.MULTILINE):
    if f"#define {name} ST_APPLIED_(ST_RENAMED_{name[3:]}, ST_PREFIX)\n" not in header:
        faults.append(f"ST_PREFIX does not rename {name}")
if 'getenv("SIMDJSON_FORCE_IMPLEMENTATION")' not in text:
    faults.append("simdjson's kernel cannot be chosen with SIMDJSON_FORCE_IMPLEMENTATION")
LIMIT, size = 1_200_000, (single / "safetensors.cpp").stat().st_size
if size > LIMIT:
    faults.append(f"safetensors.cpp has {size} bytes, more than {LIMIT}")

# A copy is checked with sha256sum -c SHA256SUMS.
files = sorted(path for path in single.iterdir() if path.name != "SHA256SUMS")
sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
if not (single / "SHA256SUMS").is_file() or (single / "SHA256SUMS").read_text() != sums:
    faults.append("SHA256SUMS does not have the sums of all files")
print("\n".join(faults) or f"{len(contained)} sources, {size} bytes")
sys.exit(bool(faults))
