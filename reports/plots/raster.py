"""Density rasters: any number of points as one small picture, each pixel counting all that fell on it."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np
from numpy.typing import NDArray


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode rows × columns × RGBA as a PNG file."""
    rows, columns, channels = pixels.shape
    if channels != 4:
        raise ValueError(f"a pixel needs 4 channels, not {channels}")
    unfiltered = np.concatenate([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, columns * 4)], axis=1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(unfiltered.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


def density(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    kind: NDArray[np.int16],
    *,
    colours: tuple[tuple[int, int, int], ...],
    columns: int,
    rows: int,
) -> NDArray[np.uint8]:
    """Count points of each kind a pixel and colour them; ``x`` and ``y`` run from 0 to 1, row 0 is y = 1.

    A pixel's opacity grows with the logarithm of its count, a single point stays clearly visible, and a rare kind is not
    drowned by a frequent one: kinds mix by the square root of their counts.
    """
    column = np.clip((x * columns).astype(np.int64), 0, columns - 1)
    row = np.clip(((1.0 - y) * rows).astype(np.int64), 0, rows - 1)
    kinds = len(colours)
    counts = np.bincount((row * columns + column) * kinds + kind, minlength=rows * columns * kinds)
    counts = counts.reshape(rows, columns, kinds).astype(np.float64)
    total = counts.sum(axis=2)
    weights = np.sqrt(counts)
    shares = weights / np.maximum(weights.sum(axis=2, keepdims=True), 1e-9)
    # Eight shades are all that an eye tells apart, and a picture of few values is a small file.
    levels = np.ceil(8 * np.log1p(total) / max(float(np.log1p(total.max())), 1e-9)) / 8
    pixels = np.zeros((rows, columns, 4), np.uint8)
    quantised = np.round(shares * 4) / 4
    rgb = quantised @ np.array(colours, np.float64) / np.maximum(quantised.sum(axis=2, keepdims=True), 1e-9)
    pixels[..., :3] = np.clip(rgb, 0, 255).astype(np.uint8)
    pixels[..., 3] = np.where(total > 0, 95 + 160 * levels, 0).astype(np.uint8)
    pixels[total == 0] = 0
    return pixels


def data_uri(picture: bytes) -> str:
    """The picture as an address that needs no network."""
    return "data:image/png;base64," + b64encode(picture).decode("ascii")
