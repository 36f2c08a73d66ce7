// SPDX-License-Identifier: Apache-2.0
// See sha256.h.
#include "compiler/system/sha256.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// The first 32 bits of the fractions of cube roots of the first 64 primes.
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t v, int by)
{
    return v >> by | v << (32 - by);
}

static void fill_schedule(const unsigned char *block, uint32_t *w)
{
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
}

static void take_block(Sha256 *h, const unsigned char *block)
{
    uint32_t w[64], s[8];
    fill_schedule(block, w);
    memcpy(s, h->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t sum1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        const uint32_t t1 = s[7] + sum1 + choice + constants[i] + w[i];
        const uint32_t sum0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + sum0 + majority;
    }
    for (int i = 0; i < 8; i++)
        h->state[i] += s[i];
}

Sha256 sha256_new(void)
{
    return (Sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                              0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(Sha256 *h, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    while (n != 0) {
        const size_t used = (size_t)(h->len % 64), room = 64 - used, part = n < room ? n : room;
        memcpy(h->block + used, at, part);
        h->len += part;
        at += part;
        n -= part;
        if (used + part == 64)
            take_block(h, h->block);
    }
}

const char *sha256_text(Arena *a, Sha256 *h)
{
    const uint64_t bits = h->len * 8;
    unsigned char tail[72] = {0x80};
    const size_t zeros = (size_t)((119 - h->len % 64) % 64);
    for (int i = 0; i < 8; i++)
        tail[1 + zeros + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(h, tail, 1 + zeros + 8);
    const uint32_t *s = h->state;
    return arena_printf(a, "%08x%08x%08x%08x%08x%08x%08x%08x", s[0], s[1], s[2], s[3], s[4], s[5], s[6],
                        s[7]);
}

const char *sha256_file(Arena *a, const char *path, uint64_t *len)
{
    enum { PIECE = 1 << 16 };
    Sha256 h = sha256_new();
    char *piece = arena_alloc(a, PIECE);
    FILE *f = fopen(path, "rb");
    size_t got = 0;
    while (f != NULL && (got = fread(piece, 1, PIECE, f)) != 0)
        sha256_add(&h, piece, got);
    const bool ok = f != NULL && !ferror(f);
    if (f != NULL)
        fclose(f);
    *len = h.len;
    return ok ? sha256_text(a, &h) : NULL;
}
