// SPDX-License-Identifier: Apache-2.0
// Device functions of cooperative matrices (codegen/prelude/glsl.inc) in plain GLSL, for devices that have
// none: 32 neighbouring threads are a subgroup, and each has every 32nd element of a square. It shows that
// the schedule is right on any device.
#ifndef TESTS_GPU_COOP_BY_HAND_H
#define TESTS_GPU_COOP_BY_HAND_H

static const char coop_by_hand[] =
    "#undef rlx_has_coop\n"
    "#undef rlx_coop_zero\n"
    "#undef rlx_coop_share\n"
    "#undef rlx_coop_product\n"
    "#undef rlx_coop_put\n"
    "#define rlx_has_coop() true\n"
    "float by_hand[8][8];\n"
    "int by_hand_place(int e) { return int(gl_LocalInvocationID.x) % 32 + 32 * e; }\n"
    "void rlx_coop_zero(int n)\n"
    "{\n"
    "    for (int i = 0; i < n; i++)\n"
    "        for (int e = 0; e < 8; e++)\n"
    "            by_hand[i][e] = 0.0;\n"
    "}\n"
    "#define rlx_coop_share(to, at, words, i) for (int w = 0; w < 4; w++) to[(at) + w] = "
    "uintBitsToFloat(words[i + w])\n"
    // An element in memory where lines are so many words apart.
    "#define by_hand_at(of, at, line, along, pitch) "
    "unpackHalf2x16(floatBitsToUint(of[(at) + (line) * pitch + (along) / 2]))[(along) % 2]\n"
    "#define rlx_coop_product(a, at_a, b, at_b, rows, columns, pitch_a, pitch_b, order) "
    "for (int i = 0; i < rows * columns; i++) for (int e = 0; e < 8; e++) for (int k = 0; k < 16; k++) { "
    "int r = i / columns * 16 + by_hand_place(e) / 16; int c = i % columns * 16 + by_hand_place(e) % 16; "
    "float x = (order & 1) != 0 ? by_hand_at(a, at_a, k, r, pitch_a) : by_hand_at(a, at_a, r, k, pitch_a); "
    "float y = (order & 2) != 0 ? by_hand_at(b, at_b, k, c, pitch_b) : by_hand_at(b, at_b, c, k, pitch_b); "
    "by_hand[i][e] = fma(x, y, by_hand[i][e]); }\n"
    "#define rlx_coop_put(i, to, at) for (int e = 0; e < 8; e++) to[(at) + by_hand_place(e)] = "
    "by_hand[i][e]\n";

#endif
