// SPDX-License-Identifier: Apache-2.0
// Random kernels whose result lies over what they read: plan_verify must say of every distance what all
// accesses say, one after the other, and leads must be the distances that pairs of accesses allow. Both say
// of most loops at once what they do, which this test does not.
#include "one_kernel.h"

enum { MAX_LOOPS = 3, MAX_STEPS = 24, CASES = 3000 };

typedef enum StepKind { LOOP, WHEN, LOAD, STORE, END } StepKind;

// An address, or a number that is compared with 3: base + the sum of factor[i] * the variable of loop i.
typedef struct Step {
    StepKind kind;
    int64_t count, step, base, factor[MAX_LOOPS];
} Step;

typedef struct Access {
    bool is_write;
    int64_t at;
} Access;

typedef struct Program {
    Step steps[MAX_STEPS];
    uint32_t n;
    bool has_when;
    VEC(Access) accesses;
    int64_t least[2], most[2]; // addresses of loads and stores
} Program;

static Arena arena;
static uint64_t rng = 7;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

static int64_t random_from(int64_t lo, int64_t hi)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return lo + (int64_t)((rng >> 33) % (uint64_t)(hi - lo + 1));
}

// --- programs ------------------------------------------------------------------------------------

static Step random_step(StepKind kind, uint32_t loops)
{
    static const int64_t factors[] = {0, 1, 1, 2, 3, 4, 6, 12, -1, -4};
    Step s = {.kind = kind, .base = random_from(-2, 2)};
    s.count = random_from(1, 4);
    s.step = random_from(1, 4) == 1 ? 2 : 1;
    for (uint32_t i = 0; i < loops; i++)
        s.factor[i] = factors[random_from(0, sizeof factors / sizeof *factors - 1)];
    return s;
}

static Program random_program(void)
{
    static const StepKind kinds[] = {LOOP, LOOP, LOOP, WHEN, LOAD, LOAD, STORE, STORE, END, END};
    Program p = {0};
    VEC(StepKind) open = {0};
    uint32_t loops = 0;
    while (p.n + open.len + 1 < MAX_STEPS && (open.len > 0 || p.n < 8)) {
        const StepKind kind = kinds[random_from(0, 9)];
        if ((kind == END && open.len == 0) || (kind == LOOP && loops == MAX_LOOPS))
            continue;
        p.steps[p.n++] = random_step(kind, loops);
        p.has_when = p.has_when || kind == WHEN;
        if (kind == LOOP || kind == WHEN)
            vec_push(&arena, &open, kind);
        if (kind == END)
            open.len--;
        loops += kind == LOOP;
        loops -= kind == END && open.data[open.len] == LOOP;
    }
    for (; open.len > 0; open.len--)
        p.steps[p.n++] = (Step){.kind = END};
    return p;
}

static int64_t value_of(const Step *s, const int64_t *v)
{
    int64_t sum = s->base;
    for (uint32_t i = 0; i < MAX_LOOPS; i++)
        sum += s->factor[i] * v[i];
    return sum;
}

static uint32_t end_of(const Program *p, uint32_t at)
{
    uint32_t depth = 1;
    for (at++; depth > 0; at++) {
        depth += p->steps[at].kind == LOOP || p->steps[at].kind == WHEN;
        depth -= p->steps[at].kind == END;
    }
    return at - 1;
}

static void run(Program *p, uint32_t begin, uint32_t end, int64_t *v, uint32_t loops)
{
    for (uint32_t i = begin; i < end; i++) {
        const Step *s = &p->steps[i];
        if (s->kind == LOAD || s->kind == STORE)
            vec_push(&arena, &p->accesses, ((Access){s->kind == STORE, value_of(s, v)}));
        if (s->kind == WHEN) {
            if (value_of(s, v) < 3)
                run(p, i + 1, end_of(p, i), v, loops);
            i = end_of(p, i);
        } else if (s->kind == LOOP) {
            for (v[loops] = 0; v[loops] < s->count; v[loops] += s->step)
                run(p, i + 1, end_of(p, i), v, loops + 1);
            v[loops] = 0;
            i = end_of(p, i);
        }
    }
}

// False: it does not both read and write.
static bool run_program(Program *p)
{
    int64_t v[MAX_LOOPS] = {0};
    run(p, 0, p->n, v, 0);
    p->least[0] = p->least[1] = INT64_MAX;
    p->most[0] = p->most[1] = INT64_MIN;
    for (uint32_t i = 0; i < p->accesses.len; i++) {
        const Access *a = &p->accesses.data[i];
        p->least[a->is_write] = a->at < p->least[a->is_write] ? a->at : p->least[a->is_write];
        p->most[a->is_write] = a->at > p->most[a->is_write] ? a->at : p->most[a->is_write];
    }
    return p->least[0] <= p->most[0] && p->least[1] <= p->most[1];
}

// Addresses begin at 0 in the kernel.
static KRef number(Kernel *k, const Step *s, const KRef *v, uint32_t loops, int64_t least)
{
    KRef sum = k_index(k, s->base - least);
    for (uint32_t i = 0; i < loops; i++)
        sum = k_expr(k, "$ + $ * #", sum, v[i], s->factor[i]);
    return sum;
}

static Kernel *kernel_of(const Program *p)
{
    Kernel *k = kernel_new(&arena, "k");
    const uint32_t x = kernel_param(k, "x", DTYPE_i8, false, true),
                   y = kernel_param(k, "y", DTYPE_i8, true, false);
    KRef v[MAX_LOOPS] = {0};
    bool is_loop[MAX_STEPS] = {0};
    uint32_t loops = 0, open = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const Step *s = &p->steps[i];
        if (s->kind == LOAD)
            k_load(k, x, number(k, s, v, loops, p->least[0]), 1, 1);
        else if (s->kind == STORE)
            k_store(k, y, number(k, s, v, loops, p->least[1]), k_integer(k, DTYPE_i8, 1), 1);
        else if (s->kind == WHEN)
            k_if(k, k_expr(k, "$ < 3", number(k, s, v, loops, 0)));
        else if (s->kind == LOOP)
            v[loops++] = k_for(k, k_index(k, 0), k_index(k, s->count), s->step, KFOR_SERIAL, "i");
        else
            k_end(k);
        if (s->kind == LOOP || s->kind == WHEN)
            is_loop[open++] = s->kind == LOOP;
        if (s->kind == END)
            loops -= is_loop[--open];
    }
    return k;
}

// --- what must hold ------------------------------------------------------------------------------

// The distances at which a read meets what was written before, as those of all pairs of accesses.
typedef struct Distances {
    bool *is_wrong; // from -out on
    int64_t least, most;
} Distances;

static Distances find_distances(const Program *p, int64_t in, int64_t out)
{
    Distances all = {ARENA_ARRAY(&arena, bool, in + out + 1), in + 1, -out - 1};
    for (uint32_t i = 0; i < p->accesses.len; i++)
        for (uint32_t j = 0; j < i && !p->accesses.data[i].is_write; j++) {
            const int64_t read = p->accesses.data[i].at - p->least[0];
            const int64_t d = read - (p->accesses.data[j].at - p->least[1]);
            if (!p->accesses.data[j].is_write)
                continue;
            all.is_wrong[d + out] = true;
            all.least = d < all.least ? d : all.least;
            all.most = d > all.most ? d : all.most;
        }
    return all;
}

static void test_random_kernels(void **state)
{
    uint32_t n = 0, n_wrong = 0, n_exact = 0;
    (void)state;
    for (uint32_t i = 0; i < CASES; i++, arena_reset(&arena)) {
        Program p = random_program();
        OneKernel o;
        if (!run_program(&p))
            continue;
        const int64_t in = p.most[0] - p.least[0] + 1, out = p.most[1] - p.least[1] + 1;
        const Distances all = find_distances(&p, in, out);
        one_kernel_make(&o, &arena, kernel_of(&p), (uint64_t)in, (uint64_t)out);
        const Lead l = one_kernel_lead(&o);
        for (int64_t d = -out; d <= in; d++, n++) {
            const bool is_wrong = all.is_wrong[d + out];
            n_wrong += is_wrong;
            if ((one_kernel_verify(&o, d) == NULL) == is_wrong || (lead_allows(l, d) && is_wrong))
                fail_msg("case %u at %lld: wrong is %d", i, (long long)d, is_wrong);
        }
        if (p.has_when)
            continue;
        assert_int_equal(l.until, all.least - 1);
        assert_int_equal(l.from, all.most + 1);
        n_exact++;
    }
    assert_true(n_exact > CASES / 10 && n > 10 * CASES && n_wrong > n / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_random_kernels, reset)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
