// SPDX-License-Identifier: Apache-2.0
// The program that vs_peers starts for the set `startup`: one run on inputs of zero, the first four
// bytes of the first output written. With -DEMPTY it writes four bytes and does nothing else, which
// shows what a process costs.
#define _GNU_SOURCE
#include <unistd.h>
#ifdef EMPTY
int main(void)
{
    return write(1, "none", 4) != 4;
}
#else
#include MODEL_H
#include <stdint.h>
#include <sys/mman.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

static RLX_ALIGNED unsigned char arena[M_ARENA_BYTES + 64], state[M_STATE_BYTES + 64];

// Asks for the pages of the arena at once: a run touches all of them, and a fault for each took longer than
// 10 % of a run of squeezenet (1145 faults; 38 are left). A kernel that does not know the question ignores
// it.
static void take_pages(void)
{
#ifdef MADV_POPULATE_WRITE
    const uintptr_t page = 4096, first = (uintptr_t)arena / page * page;
    (void)madvise((void *)first, (uintptr_t)arena + sizeof arena - first, MADV_POPULATE_WRITE);
#endif
}

int main(void)
{
    const rlx_model *m = &JOIN(MODEL, _model);
    rlx_ctx ctx;
    take_pages();
    if (rlx_init(&ctx, m, arena, m->arena_bytes, state, m->state_bytes, m->weights, m->weight_bytes) !=
            RLX_OK ||
        rlx_run(&ctx) != RLX_OK)
        return 1;
    return write(1, rlx_output(&ctx, 0), 4) != 4;
}
#endif
