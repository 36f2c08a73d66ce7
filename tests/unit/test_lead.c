// SPDX-License-Identifier: Apache-2.0
// Leads of kernels, by listings: for every distance of a result from its input, what the analysis allows must
// pass plan_verify's replay, and what it forbids must fail there where the analysis is exact. Places with
// leads are compared with all orders of few items.
#include "ir/kernel/kernel_parse.h"
#include "one_kernel.h"
#include "passes/plan/place/place.h"

static Arena arena;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

static Kernel *parse(const char *text)
{
    Diag diag = diag_new(&arena);
    Kernel *k = kernel_parse(&arena, &diag, diag_add_file(&diag, "k", text, strlen(text)));
    assert_non_null(k);
    return k;
}

static OneKernel *one_of(Kernel *k, uint64_t in, uint64_t out)
{
    OneKernel *o = ARENA_NEW(&arena, OneKernel);
    one_kernel_make(o, &arena, k, in, out);
    return o;
}

// The lead is what it should be; nothing that it allows is refused, and all that it forbids is.
static void assert_lead(OneKernel *o, int64_t until, int64_t from)
{
    const Lead l = one_kernel_lead(o);
    assert_int_equal(l.until, until);
    assert_int_equal(l.from, from);
    for (int64_t d = -(int64_t)o->buffers[2].bytes; d <= (int64_t)o->buffers[1].bytes; d++) {
        const char *wrong = one_kernel_verify(o, d);
        if (lead_allows(l, d) && wrong != NULL)
            fail_msg("at %lld: %s", (long long)d, wrong);
        if (!lead_allows(l, d) && wrong == NULL)
            fail_msg("nothing is wrong at %lld", (long long)d);
    }
}

static const char map[] = "kernel k\n"
                          "  param x: i8 read\n"
                          "  param y: i8 write\n"
                          "  for %1 = 0 .. 12 step 1 parallel \"i\"\n"
                          "    %2 = load i8 x[%1]\n"
                          "    store y[%1] = %2\n"
                          "  end\n";

static void test_map(void **state)
{
    (void)state;
    OneKernel *o = one_of(parse(map), 12, 12);
    assert_lead(o, 0, 12);
    o->kernel.kernel = lead_reversed(o->kernel.kernel, &arena);
    assert_null(kernel_verify(o->kernel.kernel));
    o->kernel.kernel->may_alias = true;
    assert_lead(o, -12, 0);
}

// A pixel has two channels in and four out, one after the other from the same inputs.
static const char wider[] = "kernel k\n"
                            "  param x: i8 read\n"
                            "  param y: i8 write\n"
                            "  for %1 = 0 .. 5 step 1 parallel \"p\"\n"
                            "    for %2 = 0 .. 4 step 1 \"o\"\n"
                            "      %3 = mul index %1 2\n"
                            "      %4 = load i8 x[%3]\n"
                            "      %5 = add index %3 1\n"
                            "      %6 = load i8 x[%5]\n"
                            "      %7 = mul index %1 4\n"
                            "      %8 = add index %7 %2\n"
                            "      %9 = add i8 %4 %6\n"
                            "      store y[%8] = %9\n"
                            "    end\n"
                            "  end\n";

static void test_wider_pixels(void **state)
{
    (void)state;
    OneKernel *o = one_of(parse(wider), 10, 20);
    assert_lead(o, -11, 10);
    o->kernel.kernel = lead_reversed(o->kernel.kernel, &arena);
    o->kernel.kernel->may_alias = true;
    assert_lead(o, -20, 2);
}

// Three rows of four elements make one, with the border left out.
static const char rows[] = "kernel k\n"
                           "  param x: i8 read\n"
                           "  param y: i8 write\n"
                           "  for %1 = 0 .. 6 step 1 parallel \"row\"\n"
                           "    for %2 = 0 .. 4 step 1 parallel \"column\"\n"
                           "      %3 = cast i8 0\n"
                           "      %4 = var i8 %3 \"sum\"\n"
                           "      %5 = sub index 1 %1\n"
                           "      %6 = max index 0 %5\n"
                           "      %7 = sub index 7 %1\n"
                           "      %8 = min index 3 %7\n"
                           "      for %9 = %6 .. %8 step 1 \"tap\"\n"
                           "        %10 = add index %9 %1\n"
                           "        %11 = add index %10 -1\n"
                           "        %12 = mul index %11 4\n"
                           "        %13 = add index %12 %2\n"
                           "        %14 = load i8 x[%13]\n"
                           "        %15 = get i8 %4\n"
                           "        %16 = add i8 %14 %15\n"
                           "        set %4 %16\n"
                           "      end\n"
                           "      %17 = mul index %1 4\n"
                           "      %18 = add index %17 %2\n"
                           "      %19 = get i8 %4\n"
                           "      store y[%18] = %19\n"
                           "    end\n"
                           "  end\n";

static void test_rows(void **state)
{
    (void)state;
    OneKernel *o = one_of(parse(rows), 24, 24);
    assert_lead(o, -4, 24);
    o->kernel.kernel = lead_reversed(o->kernel.kernel, &arena);
    o->kernel.kernel->may_alias = true;
    assert_lead(o, -24, 4);
}

// Two channels, each of which is read as a whole before it is written.
static const char planes[] = "kernel k\n"
                             "  param x: i8 read\n"
                             "  param y: i8 write\n"
                             "  param t: i8 read write\n"
                             "  for %1 = 0 .. 2 step 1 \"c\"\n"
                             "    for %2 = 0 .. 6 step 1 \"i\"\n"
                             "      %3 = mul index %2 2\n"
                             "      %4 = add index %3 %1\n"
                             "      %5 = load i8 x[%4]\n"
                             "      store t[%2] = %5\n"
                             "    end\n"
                             "    for %6 = 0 .. 6 step 1 \"o\"\n"
                             "      %7 = sub index 5 %6\n"
                             "      %8 = load i8 t[%7]\n"
                             "      %9 = mul index %6 2\n"
                             "      %10 = add index %9 %1\n"
                             "      store y[%10] = %8\n"
                             "    end\n"
                             "  end\n";

static void test_planes_are_in_place(void **state)
{
    (void)state;
    OneKernel *o = one_of(parse(planes), 12, 12);
    o->buffers[3] = (PlanBuffer){.region = REGION_ARENA, .bytes = 6, .align = 1, .offset = 24, .name = "t"};
    o->args[2] = (PlanArg){.buf = 3, .end = 6, .is_read = true, .is_written = true};
    o->kernel.args.len = 3;
    o->plan.buffers.len = 4;
    const Lead l = one_kernel_lead(o);
    assert_true(l.is_in_place && lead_allows(l, 0) && !lead_allows(l, 1) && !lead_allows(l, -1));
    assert_null(one_kernel_verify(o, 0));
    assert_non_null(one_kernel_verify(o, 1));
    assert_non_null(one_kernel_verify(o, -1));
}

static void assert_apart(const char *text)
{
    OneKernel *o = one_of(parse(text), 12, 12);
    const Lead l = one_kernel_lead(o);
    assert_int_equal(l.until, -12);
    assert_int_equal(l.from, 12);
}

static void test_what_is_not_understood_stays_apart(void **state)
{
    (void)state;
    assert_apart("kernel k\n" // data says where to read
                 "  param x: i8 read\n"
                 "  param y: i8 write\n"
                 "  for %1 = 0 .. 12 step 1 parallel \"i\"\n"
                 "    %2 = load i8 x[%1]\n"
                 "    %3 = cast index %2\n"
                 "    %4 = load i8 x[%3]\n"
                 "    store y[%1] = %4\n"
                 "  end\n");
    assert_apart("kernel k\n" // types that compilers take to be apart
                 "  param x: i16 read\n"
                 "  param y: f32 write\n"
                 "  for %1 = 0 .. 3 step 1 parallel \"i\"\n"
                 "    %2 = load i16 x[%1]\n"
                 "    %3 = cast f32 %2\n"
                 "    store y[%1] = %3\n"
                 "  end\n");
}

// --- places --------------------------------------------------------------------------------------

enum { MAX_ITEMS = 5 };

typedef struct Case {
    PlaceItem items[MAX_ITEMS];
    PlaceLead leads[MAX_ITEMS];
    uint32_t n, n_leads;
} Case;

static uint64_t rng = 1;

static uint32_t random_below(uint32_t n)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((rng >> 32) * n >> 32);
}

static bool may_lie(const Case *c, uint32_t a, uint32_t b)
{
    const PlaceItem *x = &c->items[a], *y = &c->items[b];
    const int64_t d = (int64_t)y->offset - (int64_t)x->offset;
    if (x->last < y->first || y->last < x->first)
        return true;
    for (uint32_t i = 0; i < c->n_leads; i++) {
        const PlaceLead *l = &c->leads[i];
        if ((l->in == a && l->out == b) || (l->in == b && l->out == a))
            return (d == 0 && l->is_in_place) ||
                   (l->in == a ? d <= l->until || d >= l->from : -d <= l->until || -d >= l->from);
    }
    return d >= (int64_t)x->size || -d >= (int64_t)y->size;
}

// A chain: each item is made of the one before; some live longer.
static Case random_chain(void)
{
    Case c = {.n = 2 + random_below(MAX_ITEMS - 1)};
    for (uint32_t i = 0; i < c.n; i++)
        c.items[i] = (PlaceItem){.first = i,
                                 .last = i + 1 + (random_below(4) == 0),
                                 .size = 1 + random_below(4),
                                 .align = 1,
                                 .fixed = -1};
    for (uint32_t i = 0; i + 1 < c.n; i++)
        if (c.items[i].last == i + 1) {
            const int64_t in = (int64_t)c.items[i].size, out = (int64_t)c.items[i + 1].size;
            c.leads[c.n_leads++] = (PlaceLead){.in = i,
                                               .out = i + 1,
                                               .until = -(int64_t)random_below((uint32_t)out + 1),
                                               .from = (int64_t)random_below((uint32_t)in + 1),
                                               .is_in_place = random_below(3) == 0};
        }
    return c;
}

// Is there a placement in so many bytes?
static bool fits_in(Case *c, uint32_t placed, uint64_t bytes)
{
    if (placed == c->n)
        return true;
    PlaceItem *it = &c->items[placed];
    for (it->offset = 0; it->offset + it->size <= bytes; it->offset++) {
        bool is_free = true;
        for (uint32_t i = 0; i < placed; i++)
            is_free = is_free && may_lie(c, i, placed);
        if (is_free && fits_in(c, placed + 1, bytes))
            return true;
    }
    return false;
}

static void test_places(void **state)
{
    (void)state;
    uint32_t n_best = 0;
    enum { CASES = 300 };
    for (uint32_t i = 0; i < CASES; i++) {
        Case c = random_chain(), brute = c;
        PlaceResult r;
        if (c.n_leads == 0)
            c.leads[c.n_leads++] =
                (PlaceLead){0, 1, -(int64_t)c.items[1].size, (int64_t)c.items[0].size, false};
        place_solve_leads(&arena, c.items, c.n, &(PlaceLeads){c.leads, c.n_leads, 0}, &r);
        uint64_t end = 0, least = 0;
        for (uint32_t a = 0; a < c.n; a++) {
            const uint64_t own = c.items[a].offset + c.items[a].size;
            end = own > end ? own : end;
            for (uint32_t b = a + 1; b < c.n; b++)
                assert_true(may_lie(&c, a, b));
        }
        while (!fits_in(&brute, 0, least))
            least++;
        assert_int_equal(r.arena, end);
        assert_true(r.lower_bound <= least && r.arena >= least);
        assert_true(!r.optimal || r.arena == least);
        n_best += r.arena == least;
        arena_reset(&arena);
    }
    assert_true(n_best >= CASES * 98 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_map, reset),
        cmocka_unit_test_setup(test_wider_pixels, reset),
        cmocka_unit_test_setup(test_rows, reset),
        cmocka_unit_test_setup(test_planes_are_in_place, reset),
        cmocka_unit_test_setup(test_what_is_not_understood_stays_apart, reset),
        cmocka_unit_test_setup(test_places, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
