// SPDX-License-Identifier: Apache-2.0
// What programs that call see: statuses, flags, and memory that they lend.
#ifndef RLX_TEXT_H
#define RLX_TEXT_H

#include <stddef.h>
#include <stdint.h>

// What calls return in place of a count or a token.
enum {
    RLX_TEXT_MEMORY = -1,   // the work memory is too small
    RLX_TEXT_LENGTH = -2,   // the text has more than RLX_TEXT_MOST bytes
    RLX_TEXT_TOKEN = -3,    // the vocabulary has no such token
    RLX_TEXT_NONE = -4,     // no token can be chosen: there are no logits, or all are NaN or minus infinity
    RLX_TEXT_ARGUMENT = -5  // a setting is out of its range
};
enum { RLX_TEXT_MOST = 1 << 26 };

// Flags of calls.
enum {
    RLX_TOKENS_FRAME = 1,  // add the tokens that the vocabulary wants at the beginning and at the end
    RLX_TOKENS_CONTROL = 2 // control tokens: read them in texts, write them when decoding
};

// Memory that the program lends for the time of a call; any alignment will do.
typedef struct rlx_work {
    void *memory;
    size_t bytes;
} rlx_work;

// Takes n elements of `size` bytes out of the memory. NULL: there is not so much.
static inline void *rlx_work_take(rlx_work *w, size_t n, size_t size)
{
    const size_t gap = (size_t)(-(uintptr_t)w->memory & 7u);
    if (w->memory == NULL || w->bytes < gap || n > (w->bytes - gap) / size)
        return NULL;
    void *taken = (char *)w->memory + gap;
    w->memory = (char *)taken + n * size;
    w->bytes -= gap + n * size;
    return taken;
}

// The begin of a character whose other bytes are still to come. Starts as {{0}, 0}.
typedef struct rlx_stream {
    uint8_t held[4];
    uint32_t n;
} rlx_stream;

// Room for what one token of n bytes can add to a stream.
#define RLX_STREAM_BYTES(n) (3 * ((size_t)(n) + 3))

#endif
