"""Runs a program of Windows under wine with pipes for its standard streams: Python starts with no others there, be they
files or a terminal.

usage: under_wine.py WINE PROGRAM [ARGUMENT...]

SPDX-License-Identifier: Apache-2.0
"""
import subprocess
import sys

with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
    running.stdin.close()
    for line in running.stdout:
        sys.stdout.buffer.write(line.replace(b"\r\n", b"\n"))
        sys.stdout.flush()
sys.exit(running.returncode)
