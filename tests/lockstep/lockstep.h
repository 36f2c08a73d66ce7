// SPDX-License-Identifier: Apache-2.0
// The two programs of lockstep_test.c, and what of them has to agree.
#ifndef TESTS_LOCKSTEP_H
#define TESTS_LOCKSTEP_H

#include "subject.h"
#include "plain.h"
#include "rlx_stubs.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_VALUES = 64, MAX_OWN = 4, MAX_QUEUE = 4, MAX_SYMBOLS = 16 };

// --- what is compared -----------------------------------------------------------------------------

static int failed;
static unsigned step_number;
static const char *doing = "";

static void complain(const char *what, const char *name, double a, double b)
{
    if (failed++ < 10)
        fprintf(stderr, "FAILED: step %u (%s): %s %s: %g, reference %g\n", step_number, doing, what, name, a,
                b);
}

static void agree(const char *what, const char *name, double a, double b)
{
    if (a != b)
        complain(what, name, a, b);
}

// Which of two handles that are not as they should be comes first does not matter.
static void agree_status(const char *what, rlx_status a, rlx_status b)
{
    const int is_handle = a == RLX_ERR_HANDLE || a == RLX_ERR_SIZE;
    if (!is_handle || (b != RLX_ERR_HANDLE && b != RLX_ERR_SIZE))
        agree(what, "", a, b);
}

static uint64_t seed;

// 0 .. n - 1
static int64_t pick(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(seed >> 33) % n;
}

typedef struct Side {
    const rlx_model *model;
    rlx_ctx ctx;
    rlx_error error;
    void *arena, *state, *block[2];
} Side;

static Side sub, ref;
static unsigned char *inputs[MAX_QUEUE][MAX_VALUES]; // room for the largest
static int has_threads, says_errors;
static rlx_pool pool;

static const rlx_model *largest(const rlx_model *m)
{
    return m->buckets != NULL ? m->buckets->models[m->buckets->n - 1] : m;
}

static void *room(size_t bytes)
{
    void *p = malloc(bytes + 1); // may be 0
    if (p == NULL)
        exit(3);
    memset(p, 0xAA, bytes);
    return p;
}

// What follows it is not the block's.
static void *block(size_t bytes, void **all)
{
    if (posix_memalign(all, 64, bytes + (bytes == 0)) != 0)
        exit(3);
    memset(*all, 0xFF, bytes);
    return *all;
}

static size_t count_of(const int64_t *shape, int rank)
{
    size_t n = 1;
    int i;
    for (i = 0; i < rank; i++)
        n *= (size_t)shape[i];
    return n;
}

static int is_float(rlx_dtype t)
{
    return t == RLX_F32 || t == RLX_F16 || t == RLX_BF16 || t == RLX_F64;
}

static void compare_values(const char *what, const char *name, rlx_dtype t, const void *a, const void *b,
                           size_t n)
{
    double *wide;
    size_t i;
    if (memcmp(a, b, n * rlx_dtype_bytes(t)) == 0)
        return;
    if (!is_float(t)) {
        complain(what, name, ((const unsigned char *)a)[0], ((const unsigned char *)b)[0]);
        return;
    }
    wide = (double *)room(2 * n * sizeof *wide);
    rlx_convert(wide, RLX_F64, a, t, n);
    rlx_convert(wide + n, RLX_F64, b, t, n);
    for (i = 0; i < n; i++) {
        const double x = wide[i], y = wide[n + i];
        if (!(fabs(x - y) <= 1e-4 * (1 + fabs(y))) && !(x != x && y != y) && x != y) {
            complain(what, name, x, y);
            break;
        }
    }
    free(wide);
}

static void agree_text(void)
{
    const char *a, *b;
    if (!says_errors || sub.error.status == RLX_OK || ref.error.status == RLX_OK)
        return;
    a = rlx_error_text(&sub.ctx);
    b = rlx_error_text(&ref.ctx);
    if (strcmp(a, b) != 0 && failed++ < 10)
        fprintf(stderr, "FAILED: step %u (%s): '%s', reference '%s'\n", step_number, doing, a, b);
}

static void forget_errors(void)
{
    if (says_errors) {
        rlx_set_error(&sub.ctx, &sub.error);
        rlx_set_error(&ref.ctx, &ref.error);
    }
}

// --- contexts -------------------------------------------------------------------------------------

// Blocks have room for what takes the place of a device, too.
static size_t arena_of(const rlx_model *m)
{
    const rlx_model *f = m->fallback;
    return f != NULL && f->arena_bytes > m->arena_bytes ? f->arena_bytes : m->arena_bytes;
}

static size_t state_of(const rlx_model *m)
{
    const rlx_model *f = m->fallback;
    return f != NULL && f->state_bytes > m->state_bytes ? f->state_bytes : m->state_bytes;
}

static void make(Side *s)
{
    rlx_status status;
    s->arena = block(arena_of(s->model), &s->block[0]);
    s->state = block(state_of(s->model), &s->block[1]);
    status = rlx_init(&s->ctx, s->model, s->arena, arena_of(s->model), s->state, state_of(s->model), NULL, 0);
    if (status != RLX_OK) {
        fprintf(stderr, "init: %s\n", rlx_status_text(status));
        exit(4);
    }
}

static void end(Side *s)
{
    agree("close", "", rlx_close(&s->ctx), RLX_OK);
    free(s->block[0]);
    free(s->block[1]);
}

static size_t output_count(void)
{
    return ref.ctx.model->n_outputs + ref.ctx.model->n_held;
}

static void compare_state(const rlx_tensor *t)
{
    void *p = room(t->bytes), *q = room(t->bytes);
    agree("read_state", t->name, rlx_read_state(&sub.ctx, t->name, p, t->bytes),
          rlx_read_state(&ref.ctx, t->name, q, t->bytes));
    compare_values("state", t->name, t->dtype, p, q, t->bytes / rlx_dtype_bytes(t->dtype));
    free(p), free(q);
}

static void compare_param(const rlx_tensor *t)
{
    void *p = room(t->bytes), *q = room(t->bytes);
    const rlx_status want = rlx_read_handle(&ref.ctx, t->name, q, t->bytes);
    agree("read_handle", t->name, rlx_read_handle(&sub.ctx, t->name, p, t->bytes), want);
    if (want == RLX_OK)
        compare_values("param", t->name, t->dtype, p, q, t->bytes / rlx_dtype_bytes(t->dtype));
    free(p), free(q);
}

// Params, states, symbols: all that lives.
static void compare_lasting(void)
{
    const rlx_model *m = ref.ctx.model;
    const char *a = rlx_missing_param(&sub.ctx), *b = rlx_missing_param(&ref.ctx);
    int64_t x = 0, y = 0;
    uint32_t i;
    agree("missing", "", a == NULL, b == NULL);
    if (a != NULL && b != NULL)
        agree("missing", a, strcmp(a, b), 0);
    for (i = 0; i < m->n_states; i++)
        compare_state(&m->states[i]);
    for (i = 0; i < m->n_params; i++)
        compare_param(&m->params[i]);
    for (i = 0; m->symbols != NULL && i < m->symbols->n; i++) {
        agree("get_symbol", "", rlx_get_symbol(&sub.ctx, i, &x), rlx_get_symbol(&ref.ctx, i, &y));
        agree("symbol", m->symbols->list[i].name, (double)x, (double)y);
    }
}

static void fill(void *to, rlx_dtype t, size_t n)
{
    double *wide = (double *)room(n * sizeof *wide);
    size_t i;
    for (i = 0; i < n; i++)
        wide[i] = t == RLX_BOOL ? (double)pick(2) : (double)pick(4);
    if (is_float(t) && n != 0 && pick(8) == 0)
        wide[pick((int64_t)n)] = -1; // what conditions are about
    rlx_convert(to, t, wide, RLX_F64, n);
    free(wide);
}

static void *filled(const rlx_tensor *t)
{
    void *p = room(t->bytes);
    fill(p, t->dtype, t->bytes / rlx_dtype_bytes(t->dtype));
    return p;
}

static int64_t any_size(const rlx_symbol *s)
{
    return s->min + pick(s->max - s->min + 1);
}

static void fill_inputs(int set)
{
    const rlx_model *m = largest(sub.ctx.model);
    uint32_t i;
    for (i = 0; i < m->n_inputs; i++)
        fill(inputs[set][i], m->inputs[i].dtype, m->inputs[i].bytes / rlx_dtype_bytes(m->inputs[i].dtype));
}

#endif
