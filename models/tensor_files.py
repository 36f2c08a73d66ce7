# SPDX-License-Identifier: Apache-2.0
"""Writes safetensors files. Apart because both scripts that make models need it."""
import json

import numpy as np

DTYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "uint8": "U8"}
ALIGN = 64  # of the data section


def save_safetensors(path, tensors):
    """tensors: name -> array. 8-byte little-endian header length, JSON header, data.

    The format allows no gaps between tensors, so one starts at a full 64-byte line only if those before it
    fill whole lines: the larger tensors go first.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].nbytes, name))
    header, offset = {}, 0
    for name in order:
        array = tensors[name]
        header[name] = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGN)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            array = np.ascontiguousarray(tensors[name])
            file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
