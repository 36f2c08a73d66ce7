# SPDX-License-Identifier: Apache-2.0
"""Random convolutions for check_firmware.py: windows, strides, dilations, borders, multipliers and channels
of any number, bytes with and without a sign, factors that are powers of two or decimals."""

INPUT = (12, 11, 3)  # of all networks of the test, as bytes that each layer takes in a shape of its own
CHANNELS = (1, 2, 3, 4, 6, 9, 11, 12, 18, 22, 33, 36)  # divisors of its size
SIZES = (1, 2, 3, 3, 4, 5, 5, 7, 9)
MOST_WEIGHTS, MOST_RESULTS = 12000, 4000


def out_size(size, kernel, stride, dilation, pads):
    return (size + sum(pads) - (kernel - 1) * dilation - 1) // stride + 1


def shape(rng):
    """(channels, rows, columns) of the input, the shape of the weights, the attributes; None: too large."""
    total = INPUT[0] * INPUT[1] * INPUT[2]
    channels, is_deep = rng.choice(CHANNELS), rng.random() < 0.8
    rows = rng.choice([n for n in range(1, total // channels + 1) if total // channels % n == 0])
    size = (rows, total // channels // rows)
    kernel = [rng.choice(SIZES) for _ in size]
    stride, dilation = ([rng.choice((1, 1, 2, 3)) for _ in size] for _ in range(2))
    reach = [(n - 1) * d for n, d in zip(kernel, dilation, strict=True)]
    pads = [(rng.randint(0, r), rng.randint(0, r)) for r in reach]
    out = [out_size(*of) for of in zip(size, kernel, stride, dilation, pads, strict=True)]
    results = channels * rng.choice((1, 1, 1, 2, 3, 5)) if is_deep and channels > 1 else rng.randint(1, 20)
    weights = [results, 1 if is_deep and channels > 1 else channels, *kernel]
    count = weights[0] * weights[1] * weights[2] * weights[3]
    if min(out) < 1 or out[0] * out[1] * results > MOST_RESULTS or count > MOST_WEIGHTS:
        return None
    more = (f"pads = [{pads[0][0]}, {pads[1][0]}, {pads[0][1]}, {pads[1][1]}], strides = {stride}, "
            f"dilations = {dilation}, group = {channels // weights[1]}")
    return (channels, *size), weights, more


def scale_of(rng, weights, decimals):
    inputs = weights[1] * weights[2] * weights[3]
    return rng.choice((0.02 / inputs ** 0.5, 0.02 / inputs ** 0.5, (2.0 ** -7, 2.0 ** -8), (2.0 ** -6,),
                       decimals))


def network(net, rng, layers, ends_of, decimals):
    """Adds some layers to a net of check_firmware.py and joins their results. ends_of: what becomes of the
    sums of inputs with a sign, and without one."""
    x, results = net.add(f'input "x" : i8[1, {", ".join(map(str, INPUT))}]'), []
    while len(results) < layers:
        made = shape(rng)
        if made is None:
            continue
        (channels, rows, columns), weights, more = made
        dtype = rng.choice(("i8", "i8", "u8"))
        image = net.add(f"reshape({x}) {{shape = [1, {rows}, {columns}, {channels}]}}")
        image = net.add(f"transpose({image}) {{perm = [0, 3, 1, 2]}}")
        image = image if dtype == "i8" else net.add(f"bitcast({image}) {{to = u8}}")
        ends = rng.choice(ends_of[dtype])
        y = net.conv(image, weights, scale_of(rng, weights, decimals), more, dtype=dtype, ends=ends)
        y = y if ends.dtype == "i8" else net.add(f"bitcast({y}) {{to = i8}}")
        pixels = net.add(f"transpose({y}) {{perm = [0, 2, 3, 1]}}")
        results.append(net.add(f"reshape({pixels}) {{shape = [1, -1]}}"))
    return net.text(net.add(f"concat({', '.join(results)}) {{axis = 1}}"))
