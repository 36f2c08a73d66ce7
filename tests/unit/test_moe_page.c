// SPDX-License-Identifier: Apache-2.0
// The state block has room for what the runtime keeps of a layer of experts: the planner reserves it, the
// runtime divides it, and neither includes the other.
#include "ir/plan/plan.h"
#include "runtime-lite/rlx.h"
#include "runtime-lite/rlx_moe.h"
#include "unit.h"

static void test_head_fits(void **state)
{
    (void)state;
    assert_true(sizeof(rlx_moe_head) <= PLAN_MOE_HEAD_BYTES);
}

static void test_page_fits(void **state)
{
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 31, 64, 65, 1000};
    const uint32_t n = sizeof sizes / sizeof *sizes;
    static unsigned char block[1 << 14];
    (void)state;
    for (uint32_t e = 0; e < n; e++)
        for (uint32_t r = 0; r < n; r++) {
            const rlx_ctx ctx = {.state = block};
            const rlx_moe_layer l = {.n_experts = (uint32_t)sizes[e], .rows = (uint32_t)sizes[r]};
            const size_t end = (size_t)(rlx_moe_captured(&ctx, &l) - ctx.state) + (size_t)l.rows * 4;
            assert_true(end <= plan_moe_page_bytes(sizes[e], sizes[r]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_fits),
        cmocka_unit_test(test_page_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
