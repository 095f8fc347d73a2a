# The reference: pip install safetensors==0.8.0 numpy
# SPDX-License-Identifier: Apache-2.0
import sys

from safetensors import SafetensorError, safe_open

try:
    with safe_open(sys.argv[1], framework="np") as file:
        file.keys()
except SafetensorError:
    sys.exit(1)
