// SPDX-License-Identifier: Apache-2.0
// Device functions of cooperative matrices (codegen/prelude/glsl.inc) in plain GLSL, for devices that have
// none: 32 neighbouring threads are a subgroup, and each has every 32nd element of a square. It shows that
// the schedule is right on any device.
#ifndef TESTS_GPU_COOP_BY_HAND_H
#define TESTS_GPU_COOP_BY_HAND_H

static const char coop_by_hand[] =
    "#undef RLX_HAS_COOP\n"
    "#undef rlx_has_coop\n"
    "#undef rlx_coop_product_bf16\n"
    "#define RLX_HAS_COOP 1\n"
    "#define rlx_has_coop() true\n"
    "float by_hand[24][8];\n"
    "shared uvec4 rlx_coop_memory[3072];\n"
    "int by_hand_place(int e) { return int(gl_LocalInvocationID.x) % 32 + 32 * e; }\n"
    "void rlx_coop_zero(int first, int n)\n"
    "{\n"
    "    for (int i = 0; i < n; i++)\n"
    "        for (int e = 0; e < 8; e++)\n"
    "            by_hand[first + i][e] = 0.0;\n"
    "}\n"
    "#define rlx_coop_share(to, at, words, i) "
    "to[(at) / 4] = uvec4(words[i], words[(i) + 1], words[(i) + 2], words[(i) + 3])\n"
    "#define rlx_coop_put_number(to, at, x) to[(at) / 4][(at) % 4] = floatBitsToUint(x)\n"
    "#define rlx_coop_sync() barrier()\n"
    // An element in memory where lines are so many words apart.
    "#define by_hand_at(of, at, line, along, pitch) "
    "unpackHalf2x16(of[((at) + (line) * pitch + (along) / 2) / 4][((along) / 2) % 4])[(along) % 2]\n"
    "#define by_hand_bf16(of, at, line, along, pitch) uintBitsToFloat("
    "of[((at) + (line) * pitch + (along) / 2) / 4][((along) / 2) % 4] >> (along) % 2 * 16 << 16)\n"
    // What is kept is in shared memory, too: eight squares of each subgroup.
    "shared uvec4 by_hand_kept[1024];\n"
    "#define by_hand_keep(i) (4 * (int(gl_LocalInvocationID.x) / 32 * 256 + (i) * 32))\n"
    "#define rlx_coop_keep(i, memory, at, pitch) { int w = int(gl_LocalInvocationID.x) % 32; "
    "by_hand_kept[by_hand_keep(i) / 4 + w] = memory[((at) + w / 2 * pitch + w % 2 * 4) / 4]; }\n"
    "#define rlx_coop_product(of, at_a, at_b, rows, columns, pitch_a, pitch_b, order, first) "
    "by_hand_product(by_hand_at, of, at_a, of, at_b, rows, columns, pitch_a, pitch_b, order, first)\n"
    "#define rlx_coop_product_bf16(of, at_a, at_b, rows, columns, pitch_a, pitch_b, order, first) "
    "by_hand_product(by_hand_bf16, of, at_a, of, at_b, rows, columns, pitch_a, pitch_b, order, first)\n"
    "#define by_hand_product(get, a, at_a, b, at_b, rows, columns, pitch_a, pitch_b, order, first) "
    "[[dont_unroll]] for (int i = 0; i < rows * columns; i++) [[dont_unroll]] for (int e = 0; e < 8; e++) "
    "[[dont_unroll]] for (int k = 0; k < 16; k++) { "
    "int r = i / columns * 16 + by_hand_place(e) / 16; int c = i % columns * 16 + by_hand_place(e) % 16; "
    "float x = (order & 4) != 0 ? get(by_hand_kept, by_hand_keep(at_a), r, k, 8) : "
    "(order & 1) != 0 ? get(a, at_a, k, r, pitch_a) : get(a, at_a, r, k, pitch_a); "
    "float y = (order & 2) != 0 ? get(b, at_b, k, c, pitch_b) : get(b, at_b, c, k, pitch_b); "
    "by_hand[first + i][e] = fma(x, y, by_hand[first + i][e]); }\n"
    "#define rlx_coop_scale(first, n, from, at) for (int i = 0; i < n; i++) for (int e = 0; e < 8; e++) { "
    "int w = (at) + by_hand_place(e) / 16; "
    "by_hand[first + i][e] *= uintBitsToFloat(from[w / 4][w % 4]); }\n"
    "#define rlx_coop_put(i, to, at, pitch, by_column) for (int e = 0; e < 8; e++) { "
    "int p = by_hand_place(e); "
    "int w = (at) + ((by_column) != 0 ? p % 16 * pitch + p / 16 : p / 16 * pitch + p % 16); "
    "to[w / 4][w % 4] = floatBitsToUint(by_hand[i][e]); }\n"
    "#define rlx_coop_get(to, i, from, at) for (int e = 0; e < 4; e++) "
    "to[(i) + e] = uintBitsToFloat(from[(at) / 4][e])\n";

#endif
