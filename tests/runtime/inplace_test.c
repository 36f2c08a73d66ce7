// SPDX-License-Identifier: Apache-2.0
// A model whose weights are read in the user's file: the outputs go to stdout, and files that are not the one
// it was compiled with are refused. IN_PLACE: 0 for the same model with weights in the program.
#include "m.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

static RLX_ALIGNED unsigned char arena[M_ARENA_BYTES + RLX_ALIGNMENT], state[M_STATE_BYTES + RLX_ALIGNMENT];

// A copy of the file at an address that suits weights, n bytes of it.
static unsigned char *load(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *bytes = (unsigned char *)aligned_alloc(RLX_ALIGNMENT, 1u << 20);
    *n = f != NULL && bytes != NULL ? fread(bytes, 1, 1u << 20, f) : 0;
    if (f != NULL)
        fclose(f);
    return bytes;
}

static rlx_status start(rlx_ctx *ctx, const void *weights, size_t n)
{
    return rlx_init(ctx, &m_model, arena, M_ARENA_BYTES, state, M_STATE_BYTES, weights, n);
}

#if IN_PLACE
static void check_refused(unsigned char *w, size_t n)
{
    const size_t data = (size_t)m_model.file->parts[0].offset;
    rlx_ctx ctx;
    CHECK(n == M_WEIGHT_BYTES && strlen(M_WEIGHT_FILE) > 0);
    CHECK(start(&ctx, NULL, 0) == RLX_ERR_WEIGHTS);
    CHECK(start(&ctx, w, n - 1) == RLX_ERR_WEIGHTS);
    CHECK(start(&ctx, w, 0) == RLX_ERR_WEIGHTS);
    CHECK(start(&ctx, w + 8, n) == RLX_ERR_ALIGNMENT);
    w[20] ^= 1;
    CHECK(start(&ctx, w, n) == RLX_ERR_WEIGHTS);
    w[20] ^= 1;
    CHECK(rlx_check_weights(&m_model, w, n) == RLX_OK);
    CHECK(rlx_check_weights(&m_model, w, n - 1) == RLX_ERR_WEIGHTS);
    CHECK(rlx_check_weights(&m_model, NULL, n) == RLX_ERR_NULL);
    w[data] ^= 1;
    CHECK(rlx_check_weights(&m_model, w, n) == RLX_ERR_WEIGHTS);
    w[data] ^= 1;
}
#endif

int main(int argc, char **argv)
{
    static const int64_t ids[9] = {0, 1, 511, 7, 100, 3, 3, 250, 64};
    static float image[1 * 8 * 6 * 6], y[9 * 40], z[1 * 32 * 4 * 4];
    rlx_ctx ctx;
    size_t n = 0, i;
    unsigned char *w = load(argc > 1 ? argv[1] : "", &n);
    for (i = 0; i < sizeof image / sizeof *image; i++)
        image[i] = (float)((int)(i % 11) - 5);
#if IN_PLACE
    check_refused(w, n);
    CHECK(start(&ctx, w, n) == RLX_OK);
#else
    CHECK(start(&ctx, NULL, 0) == RLX_OK);
#endif
    CHECK(m(&ctx, ids, image, y, z) == RLX_OK);
    fwrite(y, sizeof *y, 9 * 40, stdout);
    fwrite(z, sizeof *z, 32 * 4 * 4, stdout);
    free(w);
    return failed;
}
