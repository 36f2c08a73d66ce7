// SPDX-License-Identifier: Apache-2.0
// A decoder with its cache generates text: the model whose lengths are set between runs must say what is
// expected, however its prompt is cut into runs, and each run whose lengths there is an exact model for must
// give the same logits and the same new rows of the caches: to the bit, or within ALLOWED if lengths that are
// numbers let rlxc compute sines ahead, since those of the generated code may differ in the last place.
// models.h (check_decoder.py writes it) brings the models and the tokens.
#include "models.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_TOKENS = 128, MAX_STATE = 1 << 16, RUNS = 200 };

static int failures;

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            printf("# %s:%d: %s\n", __FILE__, __LINE__, #x);                                                 \
            failures++;                                                                                      \
        }                                                                                                    \
    } while (0)

// Lengths are set, or bounds within which they are the live part: of the largest, always in the same variant.
typedef enum { SET_SIZES, SET_EXTENTS } Mode;

typedef struct Decoder {
    rlx_ctx ctx;
    void *arena, *state;
    Mode mode;
} Decoder;

static void *aligned(size_t bytes)
{
    void *p = NULL;
    return posix_memalign(&p, RLX_ALIGNMENT, bytes != 0 ? bytes : RLX_ALIGNMENT) == 0 ? p : NULL;
}

static void fill_states(Decoder *d)
{
    static unsigned char nan_bytes[MAX_STATE];
    memset(nan_bytes, 0xff, sizeof nan_bytes); // NaN: what is not yet written must not count
    for (uint32_t i = 0; i < d->ctx.model->n_states; i++) {
        const rlx_tensor *t = &d->ctx.model->states[i];
        CHECK(t->bytes <= MAX_STATE && rlx_write_state(&d->ctx, t->name, nan_bytes, t->bytes) == RLX_OK);
    }
}

static void start(Decoder *d, const rlx_model *model)
{
    d->arena = aligned(model->arena_bytes);
    d->state = aligned(model->state_bytes);
    CHECK(d->arena != NULL && d->state != NULL);
    CHECK(rlx_init(&d->ctx, model, d->arena, model->arena_bytes, d->state, model->state_bytes, model->weights,
                   model->weight_bytes) == RLX_OK);
    fill_states(d);
}

static void stop(Decoder *d)
{
    free(d->arena);
    free(d->state);
}

// Inputs by name: tokens from `first` on, their positions, and a mask that sees all.
static void feed(Decoder *d, const int64_t *token, int past, int n)
{
    memset(d->arena, 0xff, d->ctx.model->arena_bytes);
    for (uint32_t i = 0; i < d->ctx.model->n_inputs; i++) {
        const char *name = d->ctx.model->inputs[i].name;
        int64_t *to = (int64_t *)rlx_input(&d->ctx, i);
        const int is_mask = strcmp(name, "attention_mask") == 0,
                  is_position = strcmp(name, "position_ids") == 0;
        for (int k = 0; k < (is_mask ? past + n : n); k++)
            to[k] = is_mask ? 1 : is_position ? past + k : token[past + k];
    }
}

static const float *last_logits(const Decoder *d, int n)
{
    return (const float *)rlx_output(&d->ctx, 0) + (n - 1) * VOCAB;
}

static int64_t best(const float *logits)
{
    int at = 0;
    for (int i = 1; i < VOCAB; i++)
        at = logits[i] > logits[at] ? i : at;
    return at;
}

// --- exact models ---

// States are [..., rows, width]: the first `past` rows of one are put into the other; or new rows compared.
typedef enum { COPY_OLD, COMPARE_NEW } RowJob;

static float row_difference(Decoder *from, Decoder *to, int past, int n, RowJob job)
{
    static float a[MAX_STATE / 4], b[MAX_STATE / 4];
    float most = 0;
    for (uint32_t i = 0; i < from->ctx.model->n_states; i++) {
        const rlx_tensor *x = &from->ctx.model->states[i], *y = &to->ctx.model->states[i];
        const int64_t width = x->shape[x->rank - 1], rows = x->shape[x->rank - 2],
                      rows_to = y->shape[y->rank - 2];
        CHECK(x->bytes <= sizeof a && y->bytes <= sizeof b && strcmp(x->name, y->name) == 0);
        CHECK(rows_to == past + n && rlx_read_state(&from->ctx, x->name, a, x->bytes) == RLX_OK &&
              rlx_read_state(&to->ctx, y->name, b, y->bytes) == RLX_OK);
        for (int64_t head = 0; head < (int64_t)y->bytes / 4 / rows_to / width; head++) {
            float *p = a + head * rows * width, *q = b + head * rows_to * width;
            if (job == COPY_OLD)
                memcpy(q, p, (size_t)(past * width) * sizeof *q);
            for (int64_t k = 0; job == COMPARE_NEW && k < (past + n) * width; k++)
                most = fmaxf(most, p[k] == q[k] ? 0 : isnan(p[k] - q[k]) ? INFINITY : fabsf(p[k] - q[k]));
        }
        if (job == COPY_OLD)
            CHECK(rlx_write_state(&to->ctx, y->name, b, y->bytes) == RLX_OK);
    }
    return most;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

// The time of the fastest run of the same step.
static double best_time(Decoder *d, const int64_t *token, int past, int n)
{
    double least = 1e30;
    for (int i = 0; i < RUNS; i++) {
        feed(d, token, past, n);
        const double begin = now_us();
        CHECK(rlx_run(&d->ctx) == RLX_OK);
        const double took = now_us() - begin;
        least = took < least ? took : least;
    }
    return least;
}

static const Exact *find_exact(int past, int n)
{
    for (size_t i = 0; i < sizeof exact_models / sizeof *exact_models; i++)
        if (exact_models[i].past == past && exact_models[i].n == n)
            return &exact_models[i];
    return NULL;
}

static void compare(Decoder *open, const Exact *e, const int64_t *token)
{
    static float logits[MAX_TOKENS * VOCAB];
    Decoder exact = {0};
    float most = 0;
    start(&exact, e->model);
    row_difference(open, &exact, e->past, e->n, COPY_OLD);
    feed(open, token, e->past, e->n);
    CHECK(rlx_run(&open->ctx) == RLX_OK);
    memcpy(logits, rlx_output(&open->ctx, 0), (size_t)(e->n * VOCAB) * sizeof *logits);
    feed(&exact, token, e->past, e->n);
    CHECK(rlx_run(&exact.ctx) == RLX_OK);
    for (int i = 0; i < e->n * VOCAB; i++) {
        const float d = fabsf(logits[i] - ((const float *)rlx_output(&exact.ctx, 0))[i]);
        most = d <= most ? most : isnan(d) ? INFINITY : d;
    }
    const float rows = row_difference(open, &exact, e->past, e->n, COMPARE_NEW);
    printf("# %d after %d: logits differ by %g, caches by %g; %.1f us, exact %.1f us\n", e->n, e->past, most,
           rows, best_time(open, token, e->past, e->n), best_time(&exact, token, e->past, e->n));
    CHECK(most <= ALLOWED && rows <= ALLOWED);
    stop(&exact);
}

// --- generation ---

static void set_length(Decoder *d, const char *symbol, int64_t length)
{
    const int slot = rlx_find_symbol(d->ctx.model, symbol);
    CHECK(slot >= 0 &&
          (d->mode == SET_SIZES ? rlx_set_symbol(&d->ctx, (uint32_t)slot, length)
                                : rlx_set_active_extent(&d->ctx, (uint32_t)slot, length,
                                                        d->ctx.model->symbols->list[slot].max)) == RLX_OK);
}

// One run of n tokens behind `past`; what comes next.
static int64_t step(Decoder *d, const int64_t *token, int past, int n)
{
    const Exact *e = find_exact(past, n);
    set_length(d, "T", n);
    set_length(d, "P", past);
    if (e != NULL)
        compare(d, e, token);
    feed(d, token, past, n);
    CHECK(rlx_run(&d->ctx) == RLX_OK);
    return best(last_logits(d, n));
}

// The prompt is the first tokens of the text, in runs of at most `piece`.
static void generate(Decoder *d, int prompt, int piece)
{
    int64_t token[MAX_TOKENS];
    int at = 0, wrong = 0;
    fill_states(d);
    memcpy(token, text, (size_t)prompt * sizeof *token);
    while (at < N_TEXT - 1) {
        const int n = at >= prompt ? 1 : prompt - at < piece ? prompt - at : piece;
        const int64_t next = step(d, token, at, n);
        at += n;
        if (at >= prompt) {
            token[at] = next;
            wrong += next != text[at];
        }
    }
    printf("# prompt of %d in runs of %d: %d of %d tokens differ\n", prompt, piece, wrong, N_TEXT - prompt);
    CHECK(wrong == 0);
}

static void check(const char *name, const rlx_model *model, Mode mode)
{
    Decoder d = {.mode = mode};
    printf("# %s\n", name);
    start(&d, model);
    generate(&d, PROMPT, 1);
    generate(&d, PROMPT + 4, 16);
    generate(&d, PROMPT + 9, 4);
    stop(&d);
}

int main(void)
{
    check("dynamic", &open_model, SET_SIZES);
    check("buckets", &buckets_model, SET_SIZES);
    check("active extents", &buckets_model, SET_EXTENTS);
    return failures != 0;
}
