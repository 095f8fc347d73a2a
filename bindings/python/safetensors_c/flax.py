"""Saving and loading dictionaries of jax arrays.

SPDX-License-Identifier: Apache-2.0
"""
import jax.numpy as jnp
import numpy as np

from ._convert import functions

save, save_file, load, load_file, _np2jnp, _jnp2np = functions("flax", np.asarray, jnp.array)
