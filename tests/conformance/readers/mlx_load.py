# MLX, whose reader is C++: pip install 'mlx[cpu]==0.32.4'. Arrays are lazy, so each is read.
# SPDX-License-Identifier: Apache-2.0
import sys

import mlx.core

mlx.core.set_default_device(mlx.core.cpu)
try:
    for array in mlx.core.load(sys.argv[1]).values():
        mlx.core.eval(array)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
