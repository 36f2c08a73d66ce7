// SPDX-License-Identifier: Apache-2.0
// Bump allocation. Everything the compiler makes lives in an arena and dies with it:
// no free(), no ownership comments, no NULL checks (out of memory ends the program here).
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ArenaChunk ArenaChunk;

typedef struct Arena {
    ArenaChunk *head; // newest chunk
    size_t used;      // bytes handed out since the last reset
} Arena;

// Start with `Arena a = {0};`.
// n zeroed bytes, aligned to 16. n may be 0 (a valid, unique pointer).
void *arena_alloc(Arena *a, size_t n);
// count * size zeroed bytes; a product that overflows ends the program with a message.
void *arena_alloc_array(Arena *a, size_t count, size_t size);
// Copies n bytes.
void *arena_copy(Arena *a, const void *src, size_t n);
// Zero-terminated copies.
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
// Forgets everything but keeps one chunk for reuse.
void arena_reset(Arena *a);
// Gives all memory back.
void arena_free(Arena *a);
// Ends the program with a message: `n` of `what` is more than memory or an index can hold.
_Noreturn void arena_give_up(const char *what, size_t n);

#define ARENA_NEW(a, T)      ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc_array((a), (size_t)(n), sizeof(T)))

#endif
