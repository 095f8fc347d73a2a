"""The same as safetensors_c.flax, by the name of the library that it is about.

SPDX-License-Identifier: Apache-2.0
"""
from .flax import load, load_file, save, save_file

__all__ = ["load", "load_file", "save", "save_file"]
