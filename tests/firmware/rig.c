// SPDX-License-Identifier: Apache-2.0
// Runs a network on an emulated board: its results must be the expected ones. Looks how much of the stack and
// of the arena was used, whether anything was written beside the arena, and traps whoever asks for a heap.
#include "net.h"
#include "start.h"

#include <string.h>

extern const unsigned char rig_input[], rig_expected[];
extern const unsigned rig_input_bytes, rig_expected_bytes;

enum { GUARD = 256, PATTERN = 0xa5 };
static RLX_ALIGNED unsigned char memory[GUARD + NET_ARENA_BYTES + GUARD];
static RLX_ALIGNED unsigned char state[NET_STATE_BYTES + 1];
static rlx_ctx net_context;

// --- a heap that ends the program ----------------------------------------------------------------

static void *ask_for_heap(void)
{
    board_say("heap used\n");
    board_end(0);
    return 0;
}

#define TRAP(name, ...)                                                                                      \
    void *rig_##name(__VA_ARGS__) __asm__(#name);                                                            \
    void *rig_##name(__VA_ARGS__)
TRAP(malloc, size_t n)
{
    (void)n;
    return ask_for_heap();
}
TRAP(calloc, size_t n, size_t size)
{
    (void)n, (void)size;
    return ask_for_heap();
}
TRAP(realloc, void *p, size_t n)
{
    (void)p, (void)n;
    return ask_for_heap();
}
TRAP(_sbrk, ptrdiff_t n)
{
    (void)n;
    return ask_for_heap();
}

// --- watermarks ----------------------------------------------------------------------------------

// Bytes of the arena up to the last one that was written.
static uint32_t arena_used(void)
{
    uint32_t n = NET_ARENA_BYTES;
    while (n > 0 && memory[GUARD + n - 1] == PATTERN)
        n--;
    return n;
}

static uint32_t bytes_beside(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < GUARD; i++)
        n += (memory[i] != PATTERN) + (memory[GUARD + NET_ARENA_BYTES + i] != PATTERN);
    return n;
}

static void say(const char *what, uint32_t value)
{
    board_say(what);
    board_say_number((int32_t)value);
    board_say("\n");
}

int main(void)
{
#ifdef RIG_PLANTED // faults that the rig must see
    if (RIG_PLANTED == 1)
        return rig_malloc(1) == 0;
#endif
    memset(memory, PATTERN, sizeof memory);
    if (net_init(&net_context, memory + GUARD, NET_ARENA_BYTES, state, NET_STATE_BYTES) != RLX_OK)
        return 1;
    memcpy(rlx_input(&net_context, 0), rig_input, rig_input_bytes);
    board_fill_stack();
    board_mark();
    const rlx_status status = rlx_run(&net_context);
    board_mark();
    say("stack ", board_stack_bytes());
#ifdef RIG_PLANTED
    memory[GUARD + NET_ARENA_BYTES + 3] = 0;
    *(unsigned char *)rlx_output(&net_context, 0) ^= 1;
#endif
    const unsigned char *out = rlx_output(&net_context, 0);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < rig_expected_bytes; i++)
        wrong += out[i] != rig_expected[i];
    say("differ ", wrong);
    say("arena ", arena_used());
    say("beside ", bytes_beside());
    return status != RLX_OK;
}
