// SPDX-License-Identifier: Apache-2.0
// See content_hash.h. xxHash is taken in as a header: no library to link.
#include "compiler/system/content_hash.h"
#include "base/diag.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop

struct ContentHash {
    XXH3_state_t *state;
};

ContentHash *content_hash_new(Arena *a)
{
    ContentHash *h = ARENA_NEW(a, ContentHash);
    const size_t align = 64; // XXH3_state_t asks for it
    char *memory = arena_alloc(a, sizeof *h->state + align);
    h->state = (XXH3_state_t *)(void *)(memory + (align - (uintptr_t)memory % align) % align);
    XXH3_INITSTATE(h->state);
    XXH3_128bits_reset(h->state);
    return h;
}

void content_hash_add(ContentHash *h, const void *bytes, size_t n)
{
    rlx_assert(bytes != NULL || n == 0);
    const uint64_t len = n;
    XXH3_128bits_update(h->state, &len, sizeof len);
    XXH3_128bits_update(h->state, bytes, n);
}

void content_hash_add_text(ContentHash *h, const char *text)
{
    content_hash_add(h, text, strlen(text));
}

static const char *hash_text(Arena *a, XXH128_hash_t h)
{
    return arena_printf(a, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

const char *content_hash_text(Arena *a, const ContentHash *h)
{
    return hash_text(a, XXH3_128bits_digest(h->state));
}

const char *content_hash_of(Arena *a, const void *bytes, size_t n)
{
    return hash_text(a, XXH3_128bits(bytes, n));
}

const char *content_hash_file(Arena *a, const char *path)
{
    enum { PIECE = 1 << 16 };
    ContentHash *h = content_hash_new(a);
    char *piece = arena_alloc(a, PIECE);
    FILE *f = fopen(path, "rb");
    size_t got = 0;
    while (f != NULL && (got = fread(piece, 1, PIECE, f)) != 0)
        XXH3_128bits_update(h->state, piece, got);
    const bool ok = f != NULL && !ferror(f);
    if (f != NULL)
        fclose(f);
    return ok ? content_hash_text(a, h) : NULL;
}
