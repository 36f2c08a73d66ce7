#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes three small int8 networks, as tools for microcontrollers would, and what they are tried on:
keyword.rlx (12 words by 49x10 features of sound), person.rlx (a person in a picture of 32x32) and
anomaly.rlx (an autoencoder of 64 features), with keyword.bin ... The first layers of two of them are random;
the last one learns from examples that this script draws, so that the answers mean something, though nothing
about real sounds and pictures. Everything is made from a seed. Needs nothing but Python.
Usage: make_networks.py FOLDER"""
import pathlib
import random
import sys

WORDS, FRAMES, BANDS = 12, 49, 10
SIDE = 32
FEATURES, HIDDEN = 64, 8
ZERO = -128  # what stands for 0 behind a layer: saturation is the ReLU


# --- networks: as text, and computed here for the layers that the last one learns from ----------------

class Layer:
    """A convolution of bytes: weights by channel, row, column; scale of its result."""

    def __init__(self, rng, out, channels, height, width, stride, pads, group):
        self.shape, self.stride, self.pads, self.group = (out, channels, height, width), stride, pads, group
        count = channels * height * width
        self.weights = [[rng.randint(-127, 127) for _ in range(count)] for _ in range(out)]
        self.scale = 1.2 / (70 * count ** 0.5)

    def run(self, x, zero):
        """x: planes of rows. The result in the same form, of bytes."""
        _, channels, height, width = self.shape
        top, left, bottom, right = self.pads
        rows, columns = len(x[0]), len(x[0][0])
        padded = [[[zero] * (columns + left + right)] * top +
                  [[zero] * left + row + [zero] * right for row in plane] +
                  [[zero] * (columns + left + right)] * bottom for plane in x]
        n, m = ((size - kernel) // self.stride + 1 for size, kernel in
                ((rows + top + bottom, height), (columns + left + right, width)))
        result = []
        for c, weights in enumerate(self.weights):
            planes = padded if self.group == 1 else [padded[c]]
            taps = [(plane, i, j) for plane in planes[:channels] for i in range(height) for j in range(width)]
            pairs = list(zip(taps, weights, strict=True))
            result.append([[self.byte(sum((p[y * self.stride + i][z * self.stride + j] - zero) * w
                                          for (p, i, j), w in pairs)) for z in range(m)] for y in range(n)])
        return result

    def byte(self, total):
        return max(-128, min(127, round(total * self.scale) + ZERO))


class Text:
    """Builds the text of a graph, node by node."""

    def __init__(self):
        self.lines = []

    def add(self, text):
        self.lines.append(f"  %{len(self.lines) + 1} = {text}")
        return f"%{len(self.lines)}"

    def constant(self, dtype, shape, values):
        return self.add(f"const : {dtype}[{', '.join(map(str, shape))}] = {{{', '.join(map(str, values))}}}")

    def product(self, x, zero, shape, weights, bias, more=""):
        w = self.constant("i8", shape, [v for row in weights for v in row])
        b = self.constant("i32", shape[:1], bias)
        return self.add(f"int_conv({x}, {w}, {b}, {self.constant('i8', [], [zero])}) {{{more}}}")

    def bytes_of(self, x, scale, zero):
        """Scaled, rounded, moved and saturated."""
        wide = self.add(f"cast({x}) {{to = f32}}")
        scaled = self.add(f"mul({wide}, {self.constant('f32', [], [scale])})")
        rounded = self.add(f"round({scaled})")
        moved = self.add(f"add({rounded}, {self.constant('f32', [], [float(zero)])})")
        return self.add(f"cast({moved}) {{to = i8}}")

    def layer(self, x, zero, layer):
        pads = f"pads = [{', '.join(map(str, layer.pads))}], "
        more = f"{pads}strides = [{layer.stride}, {layer.stride}], group = {layer.group}"
        total = self.product(x, zero, layer.shape, layer.weights, [0] * layer.shape[0], more)
        return self.bytes_of(total, layer.scale, ZERO)

    def dense(self, x, zero, weights, scale, result_zero=0):
        n, k = len(weights), len(weights[0])
        flat = self.add(f"reshape({x}) {{shape = [1, {k}, 1]}}")
        total = self.product(flat, zero, [n, k, 1], weights, [0] * n)
        scores = self.bytes_of(total, scale, result_zero)
        return self.add(f"reshape({scores}) {{shape = [1, {n}]}}")

    def write(self, path, output):
        text = "\n".join(self.lines)
        path.write_text(f'graph "{path.stem}" {{\n{text}\n  output "y" = {output}\n}}\n')


# --- what learns ------------------------------------------------------------------------------------------

def learn(examples, classes, rounds=30):
    """A perceptron with one row of weights a class, as bytes. examples: (features, class)."""
    weights = [[0] * len(examples[0][0]) for _ in range(classes)]
    for _ in range(rounds):
        for x, right in examples:
            scores = [sum(a * (b - ZERO) for a, b in zip(w, x)) for w in weights]
            best = max(range(classes), key=lambda c: scores[c] + (c != right))
            if best != right:
                weights[right] = [w + b - ZERO for w, b in zip(weights[right], x)]
                weights[best] = [w - b + ZERO for w, b in zip(weights[best], x)]
    most = max(abs(w) for row in weights for w in row)
    return [[round(127 * w / most) for w in row] for row in weights]


def features_of(layers, x):
    zero = 0
    for layer in layers:
        x, zero = layer.run(x, zero), ZERO
    return [v for plane in x for row in plane for v in row]


def classifier(folder, name, layers, examples, tried):
    """Writes a network whose last layer learns from the examples, and what it is tried on."""
    known = [(features_of(layers, [x]), c) for x, c in examples]
    weights = learn(known, max(c for _, c in examples) + 1)
    most = max(abs(sum(a * (b - ZERO) for a, b in zip(w, x))) for w in weights for x, _ in known)
    text, zero = Text(), 0
    value = text.add(f'input "x" : i8[1, 1, {len(tried[0])}, {len(tried[0][0])}]')
    for layer in layers:
        value, zero = text.layer(value, zero, layer), ZERO
    text.write(folder / f"{name}.rlx", text.dense(value, zero, weights, 120 / most))
    write_data(folder, name, [[v for row in x for v in row] for x in tried])


def write_data(folder, name, rows):
    """The inputs as bytes, one after the other."""
    (folder / f"{name}.bin").write_bytes(bytes(v & 255 for row in rows for v in row))


# --- words, pictures, machines ------------------------------------------------------------------------------

def say(rng, word):
    """Features of a word: three bands that rise and fall over time, with noise."""
    own = random.Random(word)
    tracks = [(own.uniform(0, BANDS - 1), own.uniform(-4, 4), own.randint(5, 30)) for _ in range(3)]
    frames = []
    for t in range(FRAMES):
        row = [rng.gauss(-40, 12) for _ in range(BANDS)]
        for begin, rise, at in tracks:
            band = begin + rise * t / FRAMES
            for b in range(BANDS):
                row[b] += max(0.0, 130 - 55 * abs(b - band)) * (at - 8 < t < at + 14)
        frames.append([max(-128, min(127, round(v))) for v in row])
    return frames


def draw(rng, is_person):
    """A figure with a head and legs, or a thing with edges; light or dark, anywhere."""
    ground, light = rng.randint(-90, 0), rng.randint(60, 120)
    picture = [[ground + rng.randint(-8, 8) for _ in range(SIDE)] for _ in range(SIDE)]
    x, y, size = rng.randint(9, 22), rng.randint(4, 8), rng.uniform(0.8, 1.2)
    wide, tall = rng.randint(4, 9), rng.randint(3, 12)
    for i in range(SIDE):
        for j in range(SIDE):
            down, aside = (i - y) / size, abs(j - x) / size
            head = (down - 2) ** 2 + aside ** 2 < 7
            body = 5 <= down < 14 and aside < 4 - (down - 5) * 0.15
            legs = 14 <= down < 22 and 0.8 < aside < 3
            thing = y + 2 <= i < y + 2 + tall and abs(j - x) < wide
            if (head or body or legs) if is_person else thing:
                picture[i][j] = light + rng.randint(-8, 8)
    return picture


def waves():
    """Rows of a Hadamard matrix: the vibrations of a machine that is well."""
    rows = [[1]]
    while len(rows) < FEATURES:
        rows = [row + row for row in rows] + [row + [-v for v in row] for row in rows]
    return rows


def write_anomaly(folder, rng):
    rows = waves()
    text = Text()
    x = text.add(f'input "x" : i8[1, {FEATURES}]')
    known = [[8 * v for v in row] for row in rows[1:HIDDEN + 1]]
    hidden = text.dense(x, 0, known, 1 / (8 * FEATURES))
    back = [list(column) for column in zip(*known)]
    text.write(folder / "anomaly.rlx", text.dense(hidden, 0, back, 1 / 8))
    tried = []
    for strange in (0, 25):  # how much there is of a vibration that the network does not know
        shares = [rng.randint(-11, 11) for _ in range(HIDDEN)] + [strange]
        signal = [sum(s * rows[k + 1][i] for k, s in enumerate(shares)) for i in range(FEATURES)]
        tried.append([max(-128, min(127, v + rng.randint(-2, 2))) for v in signal])
    write_data(folder, "anomaly", tried)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    layers = [Layer(rng, 8, 1, 10, 4, 2, (0, 0, 0, 0), 1), Layer(rng, 8, 1, 3, 3, 1, (1, 1, 1, 1), 8),
              Layer(rng, 8, 8, 1, 1, 1, (0, 0, 0, 0), 1)]
    examples = [(say(rng, word), word) for word in range(WORDS) for _ in range(4)]
    tried = [say(rng, word) for word in (3, 7)]
    classifier(folder, "keyword", layers, examples, tried)
    layers = [Layer(rng, 8, 1, 3, 3, 2, (0, 0, 1, 1), 1), Layer(rng, 8, 1, 3, 3, 2, (0, 0, 1, 1), 8),
              Layer(rng, 8, 8, 1, 1, 1, (0, 0, 0, 0), 1)]
    examples = [(draw(rng, is_person), is_person) for _ in range(40) for is_person in (0, 1)]
    classifier(folder, "person", layers, examples, [draw(rng, is_person) for is_person in (1, 0)])
    write_anomaly(folder, rng)


main()
