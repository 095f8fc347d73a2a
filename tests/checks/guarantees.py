"""Every command in docs/guarantees.md exists: the verbs are those of ./dev, and each -R selects a test of this build,
unless a -D asks for another build.

usage: guarantees.py BUILD_FOLDER
SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import trust  # noqa: E402

lines = [line for line in (ROOT / "docs/guarantees.md").read_text().splitlines() if line.startswith("|")]
verbs = set(re.findall(r"^verb_(\w+)\(", (ROOT / "dev").read_text(), re.MULTILINE))
listing = subprocess.run(["ctest", "--test-dir", sys.argv[1], "-N"], capture_output=True, text=True, check=True).stdout
tests = re.findall(r"^ *Test +#\d+: (\S+)", listing, re.MULTILINE)

rows = list(trust.rows())
commands = [command.removeprefix("./dev ") for _, _, row in rows for command in row]
wrong = []
if len(rows) != sum("./dev " in line for line in lines):
    wrong.append(f"scripts/trust.py reads {len(rows)} rows, and not each row with a command")
wrong += [f"./dev {command}: there is no such verb" for command in commands if command.split()[0] not in verbs]
for pattern in re.findall(r"-R '?([^`']+)", " ".join(f"{command}`" for command in commands if " -D" not in command)):
    wrong += [f"-R {pattern}: no test has a name with {part}" for part in pattern.split("|")
              if not any(re.search(part, test) for test in tests)]
print("\n".join(wrong) or f"{len(commands)} commands, {len(tests)} tests")
sys.exit(1 if wrong or not tests or not commands else 0)
