// SPDX-License-Identifier: Apache-2.0
// The tables of a model (plan.json with --tables --keep inner --bucket rows=4,16): its buffers by id and by
// node, their shapes as they are now, what they hold, how kernels are launched, and the counts. Variants have
// tables of their own.
#include "check.h"
#include "plan.h"

static RLX_ALIGNED unsigned char arena[PLAN_ARENA_BYTES], state[PLAN_STATE_BYTES];

static void run(rlx_ctx *ctx, int64_t rows)
{
    float *x;
    int64_t i;
    CHECK(plan_set_symbol(ctx, PLAN_SYM_rows, rows) == RLX_OK);
    x = (float *)rlx_input(ctx, PLAN_INPUT_x);
    for (i = 0; i < rows * 8; i++)
        x[i] = (float)(i % 5) * 0.5f;
    CHECK(rlx_run(ctx) == RLX_OK);
}

// Both have data at some kernel, in bytes of their own.
static int collide(const rlx_buffer *a, const rlx_buffer *b)
{
    return a->region == RLX_REGION_ARENA && b->region == RLX_REGION_ARENA && a->shares == 0 &&
           b->shares == 0 && a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static void test_buffers(const rlx_ctx *ctx)
{
    const rlx_tables *t = rlx_tables_of(ctx);
    uint32_t i, k;
    CHECK(t != NULL && t->n_buffers > 5);
    for (i = 0; t != NULL && i < t->n_buffers; i++) {
        const rlx_buffer *b = &t->buffers[i];
        const rlx_buffer *of = b->shares != 0 ? rlx_buffer_at(ctx, b->shares) : b;
        CHECK(rlx_buffer_at(ctx, b->id) == b && (i == 0 || b->id > t->buffers[i - 1].id));
        CHECK(b->bytes > 0 && b->first <= b->last && b->last < PLAN_KERNELS);
        CHECK(of != NULL && of->offset == b->offset && of->region == b->region);
        CHECK(b->host == RLX_NO_COPY || b->region != RLX_REGION_ARENA || b->host + b->bytes <= sizeof arena);
        for (k = 0; k < i; k++)
            CHECK(!collide(b, &t->buffers[k]));
    }
    CHECK(rlx_buffer_at(ctx, 0) == NULL && rlx_buffer_at(ctx, 1000000) == NULL);
    CHECK(rlx_buffer_at(NULL, 1) == NULL && rlx_tables_of(NULL) == NULL);
    CHECK(rlx_find_buffer(ctx, "inne") == NULL && rlx_find_buffer(ctx, "") == NULL);
    CHECK(rlx_find_buffer(ctx, NULL) == NULL && rlx_find_buffer(NULL, "x") == NULL);
}

// The sizes of one node.
static int has_shape(const rlx_ctx *ctx, const char *node, int64_t first, int64_t second)
{
    int64_t shape[RLX_MAX_RANK];
    const rlx_buffer *b = rlx_find_buffer(ctx, node);
    return b != NULL && rlx_buffer_shape(ctx, b->id, shape) == RLX_OK && shape[0] == first &&
           shape[1] == second && shape[RLX_MAX_RANK - 1] == 0;
}

static void test_shapes(rlx_ctx *ctx)
{
    int64_t shape[RLX_MAX_RANK];
    const rlx_buffer *x;
    run(ctx, 3);
    x = rlx_find_buffer(ctx, "x");
    CHECK(x != NULL && x->input == 1 + PLAN_INPUT_x && x->dtype == RLX_F32 && x->rank == 2);
    CHECK(x != NULL && x->shape[0] == 4 && x->stride[0] == 8 && x->stride[1] == 1);
    CHECK(has_shape(ctx, "x", 3, 8) && has_shape(ctx, "inner", 3, 8) && has_shape(ctx, "y", 3, 8));
    CHECK(has_shape(ctx, "w", 8, 8) && has_shape(ctx, "sum", 8, 0) && has_shape(ctx, "total", 8, 0));
    run(ctx, 9);
    CHECK(has_shape(ctx, "x", 9, 8) && has_shape(ctx, "inner", 9, 8) && has_shape(ctx, "y", 9, 8));
    CHECK(rlx_find_buffer(ctx, "x") != x && rlx_find_buffer(ctx, "x")->shape[0] == 16);
    CHECK(rlx_buffer_shape(ctx, 0, shape) == RLX_ERR_SLOT);
    CHECK(rlx_buffer_shape(ctx, 1, NULL) == RLX_ERR_NULL && rlx_buffer_shape(NULL, 1, shape) == RLX_ERR_NULL);
}

static const void *data_of(const rlx_ctx *ctx, const char *node)
{
    const rlx_buffer *b = rlx_find_buffer(ctx, node);
    return b == NULL ? NULL : rlx_buffer_data(ctx, b->id);
}

static void test_data(rlx_ctx *ctx)
{
    float sum[8], w[64];
    const rlx_tables *t;
    const float *shift;
    uint32_t i, left = 0;
    run(ctx, 5);
    t = rlx_tables_of(ctx);
    CHECK(data_of(ctx, "y") == rlx_output(ctx, PLAN_OUTPUT_y) && data_of(ctx, "y") != NULL);
    CHECK(data_of(ctx, "inner") == rlx_value_data(ctx, "inner") && data_of(ctx, "inner") != NULL);
    CHECK(rlx_read_state(ctx, "sum", sum, sizeof sum) == RLX_OK);
    CHECK(data_of(ctx, "sum") != NULL && memcmp(data_of(ctx, "sum"), sum, sizeof sum) == 0);
    for (i = 0; i < 64; i++)
        w[i] = (float)(i % 7) * 0.25f;
    CHECK(data_of(ctx, "w") != NULL && memcmp(data_of(ctx, "w"), w, sizeof w) == 0);
    shift = (const float *)data_of(ctx, "shift");
    for (i = 0; i < 8; i++)
        CHECK(shift != NULL && shift[i] > (float)i && shift[i] < (float)i + 2);
    for (i = 0; i < t->n_buffers; i++) {
        const rlx_buffer *b = &t->buffers[i];
        left += b->region == RLX_REGION_ARENA && !b->is_kept && b->input == 0;
        CHECK(b->region != RLX_REGION_ARENA || b->is_kept || b->input != 0 ||
              rlx_buffer_data(ctx, b->id) == NULL);
    }
    CHECK(left > 0 && rlx_buffer_data(ctx, 0) == NULL && rlx_buffer_data(NULL, 1) == NULL);
}

#ifdef RLX_CUDA_FILL // small kernels become one launch there
enum { FEW_LAUNCHES = 0 };
#else
enum { FEW_LAUNCHES = 3 };
#endif

static void test_counts(const rlx_ctx *ctx)
{
    const rlx_tables *t = rlx_tables_of(ctx);
    const rlx_counts *n = &t->counts;
    uint32_t i, launched = 0;
    CHECK(n->launches > FEW_LAUNCHES && n->groups >= 1 && n->groups <= n->launches);
    CHECK(n->largest_group <= n->launches);
    CHECK(n->groups == n->barriers + 1 && n->split == 0);
    for (i = 0; i < PLAN_KERNELS; i++) {
        CHECK(t->grids[i].groups >= 1 && t->grids[i].threads >= 1); // the model has no loops
        launched += t->grids[i].groups >= 1;
    }
    CHECK(launched >= 2 * n->launches); // of both variants
}

int main(void)
{
    rlx_ctx ctx;
    float w[64];
    int i;
    for (i = 0; i < 64; i++)
        w[i] = (float)(i % 7) * 0.25f;
    CHECK(plan_init(&ctx, arena, sizeof arena, state, sizeof state) == RLX_OK);
    CHECK(rlx_set_param(&ctx, "w", w, 64) == RLX_OK);
    test_buffers(&ctx);
    test_shapes(&ctx);
    test_buffers(&ctx);
    test_data(&ctx);
    test_counts(&ctx);
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
