// SPDX-License-Identifier: Apache-2.0
// See onnx_case.h.
#include "compiler/import/onnx/text/onnx_case.h"

#include <stddef.h>

// Upper-case letters first .. last whose lower case is `distance` further; with step 2 only every second one.
typedef struct CaseRange {
    uint16_t first, last;
    int16_t distance;
    uint8_t step;
} CaseRange;

static const CaseRange ranges[] = {
    {0x41, 0x5a, 32, 1},   {0xc0, 0xd6, 32, 1},   {0xd8, 0xde, 32, 1},   {0x100, 0x12e, 1, 2},
    {0x132, 0x136, 1, 2},  {0x139, 0x147, 1, 2},  {0x14a, 0x176, 1, 2},  {0x178, 0x178, -121, 1},
    {0x179, 0x17d, 1, 2},  {0x182, 0x184, 1, 2},  {0x187, 0x187, 1, 1},  {0x18b, 0x18b, 1, 1},
    {0x191, 0x191, 1, 1},  {0x198, 0x198, 1, 1},  {0x1a0, 0x1a4, 1, 2},  {0x1a7, 0x1a7, 1, 1},
    {0x1ac, 0x1ac, 1, 1},  {0x1af, 0x1af, 1, 1},  {0x1b3, 0x1b5, 1, 2},  {0x1b8, 0x1b8, 1, 1},
    {0x1bc, 0x1bc, 1, 1},  {0x1cd, 0x1db, 1, 2},  {0x1de, 0x1ee, 1, 2},  {0x1f4, 0x1f4, 1, 1},
    {0x1f8, 0x21e, 1, 2},  {0x222, 0x232, 1, 2},  {0x370, 0x372, 1, 2},  {0x376, 0x376, 1, 1},
    {0x386, 0x386, 38, 1}, {0x388, 0x38a, 37, 1}, {0x38c, 0x38c, 64, 1}, {0x38e, 0x38f, 63, 1},
    {0x391, 0x3a1, 32, 1}, {0x3a3, 0x3ab, 32, 1}, {0x3d8, 0x3ee, 1, 2},  {0x400, 0x40f, 80, 1},
    {0x410, 0x42f, 32, 1}, {0x460, 0x480, 1, 2},  {0x48a, 0x4be, 1, 2},  {0x4c0, 0x4c0, 15, 1},
    {0x4c1, 0x4cd, 1, 2},  {0x4d0, 0x52e, 1, 2},  {0x531, 0x556, 48, 1},
};

static int is_upper(const CaseRange *r, uint32_t c)
{
    return c >= r->first && c <= r->last && (c - r->first) % r->step == 0;
}

uint32_t case_lower(uint32_t c)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (is_upper(&ranges[i], c))
            return (uint32_t)((int32_t)c + ranges[i].distance);
    return c;
}

uint32_t case_upper(uint32_t c)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const uint32_t upper = (uint32_t)((int32_t)c - ranges[i].distance);
        if (c >= 0x61 && is_upper(&ranges[i], upper))
            return upper;
    }
    return c == 0x3c2 ? 0x3a3 : c == 0xb5 ? 0x39c : c; // a final sigma, the micro sign
}
