// SPDX-License-Identifier: Apache-2.0
// What plan_verify asks of plans with banks: two of RAM and one of constants, and what must not be.
#include "ir/plan/plan.h"
#include "unit.h"

static Arena arena;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

enum { INPUT = 1, VALUE, IN_PLACE, CONSTANT, N_BUFFERS };

typedef struct Banked {
    Plan plan;
    TargetCaps caps;
    PlanBank banks[3];
    PlanBuffer buffers[N_BUFFERS];
    PlanIo input;
} Banked;

static Banked *banked(void)
{
    Banked *b = ARENA_NEW(&arena, Banked);
    b->banks[0] = (PlanBank){.name = "near", .size = 100, .base = 128, .bytes = 100};
    b->banks[1] = (PlanBank){.name = "far", .size = 1000, .bytes = 100, .state = 64};
    b->banks[2] = (PlanBank){.name = "rom", .size = 64, .bytes = 64, .is_weights = true};
    b->buffers[INPUT] = (PlanBuffer){.bank = 1, .bytes = 100, .align = 4, .name = "input"};
    b->buffers[VALUE] = (PlanBuffer){.bank = 0, .offset = 128, .bytes = 100, .align = 4, .name = "value"};
    b->buffers[IN_PLACE] = b->buffers[VALUE];
    b->buffers[IN_PLACE].shares = VALUE;
    b->buffers[CONSTANT] = (PlanBuffer){.region = REGION_WEIGHTS, .bank = 2, .bytes = 64, .name = "constant"};
    b->input = (PlanIo){.name = "input", .buf = INPUT, .bytes = 100};
    b->plan = (Plan){.arena = &arena, .caps = &b->caps};
    b->plan.banks.data = b->banks;
    b->plan.banks.len = 3;
    b->plan.buffers.data = b->buffers;
    b->plan.buffers.len = N_BUFFERS;
    b->plan.inputs.data = &b->input;
    b->plan.inputs.len = 1;
    b->plan.region_bytes[REGION_ARENA] = 228;
    b->plan.region_bytes[REGION_STATE] = 64;
    b->plan.region_bytes[REGION_WEIGHTS] = 64;
    return b;
}

static void expect(const Banked *b, const char *message)
{
    const char *wrong = plan_verify(&b->plan);
    assert_non_null(wrong);
    if (strstr(wrong, message) == NULL)
        fail_msg("%s: found %s", message, wrong);
}

static void test_right(void **state)
{
    (void)state;
    assert_null(plan_verify(&banked()->plan));
}

static void test_sizes(void **state)
{
    (void)state;
    Banked *b = banked();
    b->banks[0].size = 99;
    expect(b, "bank near: more than it has");
    b = banked();
    b->banks[1].size = 128 + 63; // the state begins at 128
    expect(b, "bank far: more than it has");
    b = banked();
    b->banks[2].size = 63;
    expect(b, "bank rom: more than it has");
    b = banked();
    b->banks[0].base = 192;
    expect(b, "bank near: more than it has");
}

static void test_places(void **state)
{
    (void)state;
    Banked *b = banked();
    b->banks[0].base = 64;
    expect(b, "banks near and far overlap");
    b = banked();
    b->buffers[VALUE].offset = 100;
    expect(b, "buffer value is in no bank");
    b = banked();
    b->buffers[VALUE].bank = 1;
    expect(b, "buffer value is in no bank");
    b = banked();
    b->buffers[VALUE].bank = 2; // constants are elsewhere
    expect(b, "buffer value is in no bank");
    b = banked();
    b->buffers[IN_PLACE].bank = 1;
    b->buffers[IN_PLACE].offset = 0;
    expect(b, "buffer value is in another bank than its bytes");
    b = banked();
    b->buffers[CONSTANT].offset = 4;
    expect(b, "buffer constant is in no bank");
}

static void test_together(void **state)
{
    (void)state;
    Banked *b = banked();
    b->banks[1].state = 0;
    expect(b, "the state block is not in one bank");
    b = banked();
    b->input.buf = VALUE;
    expect(b, "input is not in the first bank");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_right, reset),
        cmocka_unit_test_setup(test_sizes, reset),
        cmocka_unit_test_setup(test_places, reset),
        cmocka_unit_test_setup(test_together, reset),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
