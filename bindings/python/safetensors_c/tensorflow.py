"""Saving and loading dictionaries of tensorflow tensors.

SPDX-License-Identifier: Apache-2.0
"""
import tensorflow as tf

from ._convert import functions

save, save_file, load, load_file, _np2tf, _tf2np = functions("tf", lambda tensor: tensor.numpy(), tf.convert_to_tensor)
