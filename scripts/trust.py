"""Runs the commands of docs/guarantees.md, and prints each promise with the last line of its commands.

usage: trust.py [WORD...]
  With words, only the rows that contain one of them, or whose section does. A command that several rows name runs once.
  Its output is kept in build/trust/, where table.md has the result. Exits with 1 if a command fails.

SPDX-License-Identifier: Apache-2.0
"""
import datetime
import pathlib
import re
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
KEPT = TOP / "build" / "trust"


def rows():
    """(section, promise, commands) of each row of the tables."""
    section = ""
    for line in (TOP / "docs" / "guarantees.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and (commands := re.findall(r"`(\./dev [^`]+)`", cells[2])):
            yield section, cells[0], tuple(command.replace(r"\|", "|") for command in commands)


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def run(command, log):
    """Whether it passed, and its last line with the seconds that it took."""
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(command, shell=True, cwd=TOP, stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.STDOUT, check=False).returncode
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    last = lines[-1][:100].replace("|", "/") if lines else "no output"
    return code == 0, f"{last} ({time.monotonic() - started:.0f} s)"


def main(words):
    texts = {row: f"{row[0]} {row[1]} {' '.join(row[2])}".lower() for row in rows()}
    for word in words or [""]:
        if not any(word.lower() in text for text in texts.values()):
            say(f"no promise contains '{word}'")
            return 2
    chosen = [row for row, text in texts.items() if not words or any(word.lower() in text for word in words)]
    KEPT.mkdir(parents=True, exist_ok=True)
    results = {}
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=TOP, capture_output=True, text=True, check=False)
    lines = [f"{commit.stdout.strip()}, {datetime.date.today()}", "", "| promise | command | result |", "|---|---|---|"]
    for _, promise, commands in chosen:
        for command in commands:
            if command not in results:
                log = KEPT / f"{len(results) + 1:02}.log"
                say(f"{command} > {log.relative_to(TOP)}")
                results[command] = run(command, log)
            passed, last = results[command]
            lines.append(f"| {promise} | `{command}` | {'' if passed else '**FAILED** '}{last} |".replace("`./dev ", "`"))
    (KEPT / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    failed = sum(not passed for passed, _ in results.values())
    print(*lines, "", f"{len(results) - failed} commands passed, {failed} failed", sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
