// SPDX-License-Identifier: Apache-2.0
// The key under which tests keep that a case has passed (../e2e/ops_hash.h): every fact of a plan that a run
// depends on changes it. The facts are changed one by one.
#include "../e2e/ops_hash.h"
#include "ir/kernel/kernel.h"
#include "one_kernel.h"

typedef struct Facts {
    OneKernel plain;
    Plan body;
    PlanLoop loop;
    PlanKernel looped;
    PlanTensorMap map;
    PlanPhase phase;
    uint32_t phase_arg;
    PlanSlot slot;
    PlanCheck check;
    PlanMove move;
    unsigned char bytes[4];
} Facts;

static Arena arena;

// A plan with a kernel, and with a loop around another one.
static Facts *make_facts(void)
{
    Facts *f = ARENA_NEW(&arena, Facts);
    Kernel *k = kernel_new(&arena, "k"), *inside = kernel_new(&arena, "inside");
    OneKernel *body = ARENA_NEW(&arena, OneKernel);
    one_kernel_make(&f->plain, &arena, k, 8, 8);
    one_kernel_make(body, &arena, inside, 8, 8);
    Plan *p = &f->plain.plan;
    f->body = body->plan;
    f->body.slots.data = &f->slot;
    f->body.slots.len = 1;
    f->loop.body = &f->body;
    f->loop.moves.data = &f->move;
    f->loop.moves.len = 1;
    PlanKernel *kernels = ARENA_ARRAY(&arena, PlanKernel, 2);
    f->map.rank = 2;
    f->plain.buffers[2].map = &f->map;
    f->plain.buffers[3] = (PlanBuffer){.region = REGION_WEIGHTS, .bytes = 4, .data = f->bytes};
    p->buffers.len = 4;
    p->checks.data = &f->check;
    p->checks.len = 1;
    f->check.message = "no";
    f->phase = (PlanPhase){.kernel = inside, .args = &f->phase_arg};
    kernels[0] = f->plain.kernel;
    kernels[0].threads.phases.data = &f->phase;
    kernels[0].threads.phases.len = 1;
    kernels[1] = f->plain.kernel;
    kernels[1].loop = &f->loop;
    p->kernels.data = kernels;
    p->kernels.len = 2;
    return f;
}

static uint64_t hash_of(const Facts *f, OpsPlaces places)
{
    const Plan *p = &f->plain.plan;
    const uint64_t hash = ops_hash_kernels(&arena, p, places, ops_hash_facts(p, places, 0));
    return ops_hash_constants(&arena, p, hash);
}

#define CHANGES(what)                                                                                        \
    do {                                                                                                     \
        const uint64_t before = hash_of(f, places);                                                          \
        (what)++;                                                                                            \
        if (hash_of(f, places) == before)                                                                    \
            fail_msg("%s is not in the hash", #what);                                                        \
        (what)--;                                                                                            \
        assert_int_equal(hash_of(f, places), before);                                                        \
    } while (0)
#define TURNS(what)                                                                                          \
    do {                                                                                                     \
        const uint64_t before = hash_of(f, places);                                                          \
        (what) = !(what);                                                                                    \
        if (hash_of(f, places) == before)                                                                    \
            fail_msg("%s is not in the hash", #what);                                                        \
        (what) = !(what);                                                                                    \
    } while (0)

static void test_plans(void **state)
{
    const OpsPlaces places = OPS_PLANNED;
    Facts *f = make_facts();
    Plan *p = &f->plain.plan;
    (void)state;
    CHANGES(p->buffers.data[1].bytes);
    CHANGES(p->buffers.data[1].offset);
    CHANGES(p->buffers.data[2].shares);
    CHANGES(p->buffers.data[1].region);
    CHANGES(p->region_bytes[REGION_ARENA]);
    CHANGES(p->inputs.data[0].byte_offset);
    CHANGES(p->inputs.data[0].dtype);
    CHANGES(p->inputs.data[0].name);
    CHANGES(p->prepare.n_kernels);
    CHANGES(p->n_check_kernels);
    CHANGES(f->check.byte_offset);
    CHANGES(f->check.message);
    CHANGES(f->bytes[3]);
    TURNS(p->is_shared);
    CHANGES(f->map.byte_offset);
    CHANGES(f->map.dim[1]);
    CHANGES(f->map.stride[1]);
    CHANGES(f->map.box[1]);
    CHANGES(f->map.swizzle);
    CHANGES(f->map.low[1]);
    CHANGES(f->map.step[0]);
    TURNS(f->map.is_image);
}

static void test_kernels(void **state)
{
    const OpsPlaces places = OPS_APART;
    Facts *f = make_facts();
    PlanKernel *k = &f->plain.plan.kernels.data[0];
    (void)state;
    CHANGES(k->args.data[1].buf);
    CHANGES(k->args.data[1].byte_offset);
    CHANGES(k->args.data[1].begin);
    CHANGES(k->args.data[1].end);
    CHANGES(k->args.data[1].below);
    TURNS(k->args.data[1].is_read);
    TURNS(k->threads.is_shared);
    TURNS(k->threads.waits);
    CHANGES(k->threads.thread);
    TURNS(k->is_last);
    TURNS(k->is_start);
    CHANGES(k->kernel->name);
    CHANGES(f->phase.kernel->name);
}

static void test_loops(void **state)
{
    const OpsPlaces places = OPS_APART; // what is in the arena of the whole plan
    Facts *f = make_facts();
    (void)state;
    CHANGES(f->loop.max_trips);
    CHANGES(f->loop.trips);
    CHANGES(f->loop.cond);
    CHANGES(f->loop.count);
    TURNS(f->loop.is_on_device);
    CHANGES(f->move.start);
    CHANGES(f->slot.start);
    CHANGES(f->slot.step);
    CHANGES(f->body.buffers.data[1].offset);
}

static void test_places(void **state)
{
    Facts *f = make_facts();
    const uint64_t apart = hash_of(f, OPS_APART);
    (void)state;
    f->plain.plan.buffers.data[1].offset++;
    assert_int_equal(hash_of(f, OPS_APART), apart); // each buffer has memory of its own
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
