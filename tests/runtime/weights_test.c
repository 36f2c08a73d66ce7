// SPDX-License-Identifier: Apache-2.0
// Says of a model, on one line, what rlx_init, rlx_check_weights and a run return; with experts that are a
// file of their own rlx_set_moe_source and rlx_check_moe_source instead of the run. Arguments: the file of
// weights (none: those in the program) and that of experts.
#include "m.h"

#include <stdio.h>

static RLX_ALIGNED unsigned char arena[M_ARENA_BYTES + 1], state[M_STATE_BYTES + 1];

enum { ROOM = 1 << 21 };
static RLX_ALIGNED unsigned char weights[ROOM], experts[ROOM];

static size_t load(const char *path, unsigned char *to)
{
    FILE *f = fopen(path, "rb");
    const size_t n = f != NULL ? fread(to, 1, ROOM, f) : 0;
    if (f != NULL)
        fclose(f);
    return n;
}

int main(int argc, char **argv)
{
    const int is_given = argc > 1 && argv[1][0] != '-', has_experts = argc > 2;
    const size_t n = is_given ? load(argv[1], weights) : 0;
    const size_t n_experts = has_experts ? load(argv[2], experts) : 0;
    const void *w = is_given ? weights : NULL;
    rlx_ctx ctx;
    rlx_status status = rlx_init(&ctx, &m_model, arena, M_ARENA_BYTES, state, M_STATE_BYTES, w, n);
    printf("%s, %s", rlx_status_text(status), rlx_status_text(rlx_check_weights(&m_model, w, n)));
#ifdef M_MOE_SLOTS
    if (status == RLX_OK) {
        printf(", %s", rlx_status_text(rlx_set_moe_source(&ctx, experts, n_experts)));
        printf(", %s", rlx_status_text(rlx_check_moe_source(&m_model, experts, n_experts)));
    }
#else
    if (status == RLX_OK && n_experts == 0)
        printf(", %s", rlx_status_text(rlx_run(&ctx)));
#endif
    puts("");
    return 0;
}
