"""What child processes of a patched program import as `safetensors`: it patches the child.

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

try:
    import safetensors_c
except ModuleNotFoundError:  # the program found the package by a sys.path that its child does not have
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
    import safetensors_c

safetensors_c.patch()  # puts safetensors_c in place of this module
