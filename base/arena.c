// SPDX-License-Identifier: Apache-2.0
// Bump allocation: a list of chunks, the newest first. The only place of the compiler that
// asks the system for memory, so the only one that must answer for there being none.
// Under AddressSanitizer every block is fenced, so that overruns are found inside a chunk too.
#include "base/arena.h"
#include "base/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_FENCED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_FENCED 1
#endif
#endif

#ifdef ARENA_FENCED
#include <sanitizer/asan_interface.h>
enum { FENCE = 16 };
#define HIDE(p, n) __asan_poison_memory_region((p), (n))
#define SHOW(p, n) __asan_unpoison_memory_region((p), (n))
#else
enum { FENCE = 0 };
#define HIDE(p, n) ((void)(p), (void)(n))
#define SHOW(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 16, MIN_CHUNK = 1 << 13, MAX_CHUNK = 1 << 24, HUGE_CHUNK = 1 << 21 };

// The bytes follow the header; everything beyond `used` is zero.
struct ArenaChunk {
    _Alignas(ALIGN) ArenaChunk *next;
    size_t size, used;
};

static char *chunk_data(ArenaChunk *c)
{
    return (char *)(c + 1);
}

_Noreturn void arena_give_up(const char *what, size_t n)
{
    fprintf(stderr, "rlxc: out of memory: cannot hold %zu %s\n", n, what);
    exit(EXIT_FAILURE);
}

static ArenaChunk *chunk_new(size_t size)
{
    ArenaChunk *c = size > SIZE_MAX - sizeof *c ? NULL : calloc(1, sizeof *c + size);
    if (!c)
        arena_give_up("bytes", size);
#ifdef MADV_HUGEPAGE
    if (size >=
        HUGE_CHUNK) { // first touches cost a fault a page: ask for large ones, whole ones of this block only
        const uintptr_t from = ((uintptr_t)c + HUGE_CHUNK - 1) / HUGE_CHUNK * HUGE_CHUNK;
        const uintptr_t to = ((uintptr_t)c + sizeof *c + size) / HUGE_CHUNK * HUGE_CHUNK;
        if (to > from)
            (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
    }
#endif
    c->size = size;
    HIDE(chunk_data(c), size);
    return c;
}

// Chunks double, so that their number stays small. A block too large for the next chunk gets
// one of its own behind the head, so that the rest of the head is not lost.
static ArenaChunk *chunk_for(Arena *a, size_t n)
{
    size_t size = a->head ? a->head->size * 2 : MIN_CHUNK;
    if (size > MAX_CHUNK)
        size = MAX_CHUNK;
    if (a->head && n > size / 4) {
        ArenaChunk *c = chunk_new(n);
        c->next = a->head->next;
        a->head->next = c;
        return c;
    }
    ArenaChunk *c = chunk_new(n > size ? n : size);
    c->next = a->head;
    a->head = c;
    return c;
}

void *arena_alloc(Arena *a, size_t n)
{
    if (n > SIZE_MAX / 2)
        arena_give_up("bytes", n);
    size_t wanted = n ? n : 1;
    size_t padded = (wanted + FENCE + ALIGN - 1) / ALIGN * ALIGN;
    ArenaChunk *c = a->head;
    if (!c || c->size - c->used < padded)
        c = chunk_for(a, padded);
    rlx_assert(c->size - c->used >= padded);
    char *p = chunk_data(c) + c->used;
    c->used += padded;
    a->used += padded - FENCE;
    SHOW(p, wanted);
    return p;
}

void *arena_alloc_array(Arena *a, size_t count, size_t size)
{
    size_t n = 0;
    if (__builtin_mul_overflow(count, size, &n))
        arena_give_up("elements", count);
    return arena_alloc(a, n);
}

void *arena_copy(Arena *a, const void *src, size_t n)
{
    void *p = arena_alloc(a, n);
    if (n)
        memcpy(p, src, n);
    return p;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX)
        arena_give_up("bytes", n);
    char *p = arena_alloc(a, n + 1);
    if (n)
        memcpy(p, s, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(Arena *a, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0)
        arena_give_up("bytes", SIZE_MAX);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *p = arena_vprintf(a, fmt, args);
    va_end(args);
    return p;
}

static void free_list(ArenaChunk *c)
{
    while (c) {
        ArenaChunk *next = c->next;
        free(c);
        c = next;
    }
}

void arena_reset(Arena *a)
{
    ArenaChunk *c = a->head;
    a->used = 0;
    if (!c)
        return;
    free_list(c->next);
    c->next = NULL;
    SHOW(chunk_data(c), c->used);
    memset(chunk_data(c), 0, c->used);
    HIDE(chunk_data(c), c->size);
    c->used = 0;
}

void arena_free(Arena *a)
{
    free_list(a->head);
    *a = (Arena){0};
}
