#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes held-out images of models/digits as PNG files of 80 x 80 pixels: NUMBER_is_CLASS.png, the first
ten or as many as are asked for. Needs nothing but Python. Usage: make_samples.py FOLDER [COUNT]"""
import pathlib
import struct
import sys
import zlib

DIGITS = pathlib.Path(__file__).resolve().parent / "../../models/digits"
SIDE, ZOOM = 8, 10


def read_npy(path):
    """The bytes of the elements of a .npy file of version 1."""
    data = path.read_bytes()
    return data[10 + int.from_bytes(data[8:10], "little"):]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(path, rows):
    """8 bits of grey; every row begins with the number of its filter, 0: none."""
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def main():
    folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    folder.mkdir(parents=True, exist_ok=True)
    labels = read_npy(DIGITS / "test_labels.npy")
    pixels = struct.unpack(f"<{SIDE * SIDE * len(labels)}f", read_npy(DIGITS / "test_images.npy"))
    for i in range(min(count, len(labels))):
        image = [round(255 * v) for v in pixels[i * SIDE * SIDE:(i + 1) * SIDE * SIDE]]
        rows = [[image[y // ZOOM * SIDE + x // ZOOM] for x in range(SIDE * ZOOM)] for y in range(SIDE * ZOOM)]
        write_png(folder / f"{i:03}_is_{labels[i]}.png", rows)


main()
