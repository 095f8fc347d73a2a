"""Saving and loading dictionaries of mlx arrays.

SPDX-License-Identifier: Apache-2.0
"""
import mlx.core as mx
import numpy as np

from ._convert import functions

save, save_file, load, load_file, _np2mx, _mx2np = functions("mlx", np.asarray, mx.array)
