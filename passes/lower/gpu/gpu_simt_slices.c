// SPDX-License-Identifier: Apache-2.0
// Slices of operands for gpu_matmul_simt.c: from memory into registers, and from there into shared memory.
// All threads of a group bring what its teams multiply. Accesses are as wide as strides and sizes allow;
// what is outside of an operand is zero. Lines of shared memory are shifted against each other by eight words
// for every four words of k, so that vectors along k are put without conflicts, too.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_simt.h"

enum { SHIFT_WORDS = 4, SHIFT = 8, SHIFTS = GPU_SIMT_SHIFTED / SHIFT, WORD_BITS = 32 };

int64_t gpu_side_words(const GpuSimt *s, int64_t lines)
{
    rlx_assert(lines % GPU_SIMT_SHIFTED == 0);
    return s->depth * (lines + GPU_SIMT_PAD);
}

// --- where elements are --------------------------------------------------------------------------

// Can a tap of the kernel lie outside of the image?
static bool is_framed(const GpuWindow *w, uint32_t axis)
{
    return w->pad[axis] != 0 || (w->out[axis] - 1) * w->step[axis] +
                                        (w->taps[axis] - 1) * w->dilation[axis] >=
                                    w->in[axis];
}

static int64_t count_taps(const GpuWindow *w)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < w->axes; i++)
        n *= w->taps[i];
    return n;
}

static KRef channel_of(const GpuSimt *s, KRef step)
{
    const GpuWindow *w = s->a.window;
    return w->is_tap_inner ? k_expr(s->k, "$ / #", step, count_taps(w))
                           : k_expr(s->k, "$ % #", step, w->channels);
}

bool gpu_side_has_gaps(const GpuSide *x)
{
    const GpuWindow *w = x->window;
    bool has_gaps = w != NULL && w->own_columns != 0;
    for (uint32_t i = 0; w != NULL && i < w->axes; i++)
        has_gaps = has_gaps || is_framed(w, i);
    return has_gaps;
}

KRef gpu_side_is_own(const GpuSimt *s, KRef column, KRef step)
{
    const GpuWindow *w = s->a.window;
    Kernel *k = s->k;
    if (s->p->has_weight != NULL)
        return s->p->has_weight(s->p, column, step);
    if (w == NULL || w->own_columns == 0)
        return k_expr(k, "$ < #", step, s->p->k);
    return k_expr(k, "$ / # == $ / #", column, w->own_columns, channel_of(s, step), w->own_channels);
}

static KRef window_index(const GpuSimt *s, KRef row, KRef step, KRef *is_in)
{
    const GpuWindow *w = s->a.window;
    rlx_assert(w != NULL && w->axes >= 1 && w->axes <= GPU_WINDOW_AXES);
    Kernel *k = s->k;
    const KRef zero = k_index(k, 0);
    KRef tap = w->is_tap_inner ? k_expr(k, "$ % #", step, count_taps(w))
                               : k_expr(k, "$ / #", step, w->channels);
    KRef from = zero, along = k_expr(k, "$ * #", channel_of(s, step), w->stride_c); // by row; by step
    for (uint32_t i = w->axes; i-- > 0;) {
        const KRef out = k_expr(k, "$ % #", row, w->out[i]);
        const KRef at = i == 0 ? tap : k_expr(k, "$ % #", tap, w->taps[i]);
        const KRef first = k_expr(k, "$ * # + #", out, w->step[i], -w->pad[i]);
        const KRef offset = k_expr(k, "$ * #", at, w->dilation[i]);
        row = k_expr(k, "$ / #", row, w->out[i]);
        tap = k_expr(k, "$ / #", tap, w->taps[i]);
        from = k_expr(k, "$ * # + $", first, w->stride[i], from);
        along = k_expr(k, "$ * # + $", offset, w->stride[i], along);
        if (is_framed(w, i)) {
            const KRef pixel = k_add(k, first, offset);
            *is_in = k_and(k, *is_in, k_expr(k, "$ <= $ & $ < #", zero, pixel, pixel, w->in[i]));
        }
    }
    return k_expr(k, "$ * # + $ + $", row, w->stride_n, from, along);
}

KRef gpu_side_index(const GpuSimt *s, const GpuSide *x, KRef line, KRef step, KRef *is_in)
{
    rlx_assert(x->base != 0);
    Kernel *k = s->k;
    if (x->window != NULL)
        return k_add(k, x->base, window_index(s, line, step, is_in));
    if (x->x->pair != 0)
        return k_expr(k, "$ / # * # + ($ * # + ($ + $ % #))", step, x->x->pair, x->x->k, line, x->x->outer,
                      x->base, step, x->x->pair);
    return k_expr(k, "$ * # + ($ * # + $)", line, x->x->outer, step, x->x->k, x->base);
}

// Accesses of a slice, and how many of them a thread has at most.
static int64_t chunks_of(const GpuSimt *s, const GpuSide *x)
{
    return x->lines * s->depth / x->vector;
}

static int64_t turns_of(const GpuSimt *s, const GpuSide *x)
{
    return ceil_div(chunks_of(s, x), GPU_SIMT_THREADS);
}

// --- how wide accesses are -----------------------------------------------------------------------

bool gpu_side_is_even(const GpuSimt *s, const GpuSide *x, int64_t n)
{
    const GpuMatmul *p = s->p;
    const int type = lower_node(s->l, x->x->id)->dtype;
    const GpuWindow *w = x->window;
    const int64_t lines = x->x->pair != 0 ? n / x->x->pair : n;
    bool is_even = lower_alignment(s->l, x->x->loc, (DType)type) >= n * dtype_info[type].bytes;
    for (uint32_t i = 0; i < p->n_batch; i++)
        is_even = is_even && x->x->batch[i] % n == 0;
    if (w == NULL)
        return is_even && (x->is_along_k ? x->x->outer % n == 0 && p->k % n == 0
                                         : x->x->k % n == 0 && x->size % lines == 0);
    for (uint32_t i = 0; i < w->axes; i++)
        is_even = is_even && w->stride[i] % n == 0;
    return is_even && x->is_along_k && w->stride_n % n == 0 && w->channels % n == 0;
}

// Elements of a word that lie side by side are read as words.
static void choose_vector(const GpuSimt *s, GpuSide *x)
{
    const GpuMatrix *m = x->x;
    const bool has_words = s->pair > 1 && (x->is_along_k || m->pair != 0);
    const bool is_dense = x->is_along_k || m->pair != 0 || (m->outer == 1 && x->window == NULL);
    const int64_t most = has_words ? GPU_SIMT_VECTOR : k_fetch_width(lower_node(s->l, m->id)->dtype);
    x->vector = 1;
    for (int64_t v = GPU_SIMT_VECTOR; v >= 1 && is_dense; v /= 2)
        if (v <= most && gpu_side_is_even(s, x, has_words ? s->pair * v : v)) {
            x->vector = v;
            x->has_words = has_words;
            return;
        }
}

uint32_t gpu_side_param(const GpuSimt *s, const GpuSide *x, DType word)
{
    Lower *l = s->l;
    return x->x->packed != 0 ? lower_param_buffer(l, l->pk->args.data[x->param].buf, word, PARAM_READ)
                             : lower_param_words(l, x->x->id, word);
}

void gpu_side_begin(GpuSimt *s, GpuSide *x)
{
    Lower *l = s->l;
    Kernel *k = s->k;
    const GpuMatrix *m = x->x;
    rlx_assert(x->lines > 0 && x->size > 0);
    x->param = gpu_matrix_param(l, m);
    x->is_along_k = x->window != NULL ? x->window->stride_c == 1 && !x->window->is_tap_inner
                                      : m->k == 1 && m->pair == 0;
    choose_vector(s, x);
    if (x->has_words)
        x->words = gpu_side_param(s, x, DTYPE_u32);
    else if (s->unit == GPU_UNIT_HALF)
        x->words = gpu_side_param(s, x, DTYPE_u16);
    x->pitch = x->lines + (s->unit == GPU_UNIT_SIMD ? GPU_SIMT_PAD / 2 : GPU_SIMT_PAD);
    for (int64_t i = 0; i < s->ahead; i++)
        x->next[i] = k_array(k, s->word, turns_of(s, x) * x->vector);
}

// --- slices --------------------------------------------------------------------------------------

// What a thread brings by one access: the first word and line in the slice.
typedef struct Chunk {
    KRef word, line;
} Chunk;

// Neighbours in memory are brought by neighbours: a team's words of a line, or a whole line.
static Chunk chunk_of(const GpuSimt *s, const GpuSide *x, KRef e)
{
    Kernel *k = s->k;
    const KRef i = k_expr(k, "$ * # + $", e, GPU_SIMT_THREADS, s->thread);
    const int64_t span = x->is_along_k ? s->words / x->vector : x->lines / x->vector;
    const KRef low = k_expr(k, "$ % # * #", i, span, x->vector), high = k_expr(k, "$ / #", i, span);
    if (!x->is_along_k)
        return (Chunk){.word = high, .line = low};
    return (Chunk){.word = k_expr(k, "$ / # * # + $", high, x->lines, s->words, low),
                   .line = k_expr(k, "$ % #", high, x->lines)};
}

// What a thread fetches of the operand: line, and first step of k.
typedef struct Reach {
    KRef line, step;
} Reach;

// Is what a thread fetches within the operand? Nobody asks where tiles and slices end with it.
static KRef is_within(const GpuSimt *s, const GpuSide *x, Reach at)
{
    Kernel *k = s->k;
    KRef is_in = k_integer(k, DTYPE_bool, 1);
    if (x->size % x->lines != 0)
        is_in = k_and(k, is_in, k_expr(k, "$ < #", at.line, x->size));
    if (s->p->k % (s->depth * s->pair) != 0)
        is_in = k_and(k, is_in, k_expr(k, "$ < #", at.step, s->p->k));
    return is_in;
}

// The index of the element there, or 0 where there is none.
static KRef index_of(const GpuSimt *s, const GpuSide *x, Reach at, KRef *is_in)
{
    Kernel *k = s->k;
    *is_in = is_within(s, x, at);
    const KRef index = gpu_side_index(s, x, at.line, at.step, is_in);
    return k_select(k, *is_in, index, k_index(k, 0));
}

// What stands where there is nothing: zero, or the bytes that stand for it.
static KRef nothing(const GpuSimt *s, const GpuSide *x, int type)
{
    Kernel *k = s->k;
    if (s->zero == 0 || x->window == NULL)
        return k_number(k, type, 0);
    if (!x->has_words)
        return k_cast(k, s->zero, type);
    const KRef byte = k_and(k, k_cast(k, s->zero, DTYPE_u32), k_integer(k, DTYPE_u32, 0xff));
    return k_mul(k, byte, k_integer(k, DTYPE_u32, 0x01010101));
}

// What one access brings, with zeros where there is nothing, in an array of the parameter's type.
static KRef fetch_vector(const GpuSimt *s, const GpuSide *x, Reach at)
{
    Kernel *k = s->k;
    KRef is_in = 0;
    const KRef element = index_of(s, x, at, &is_in);
    const KRef index = x->has_words ? k_expr(k, "$ / #", element, s->pair) : element;
    const uint32_t param = x->has_words || s->unit == GPU_UNIT_HALF ? x->words : x->param;
    const int type = (int)k->params.data[param].dtype;
    const KRef to = k_array(k, type, x->vector);
    if (x->vector > 1)
        k_fetch(k, param, index, to, k_index(k, 0), (uint8_t)x->vector);
    for (int64_t i = 0; i < x->vector; i++) {
        const KRef value = x->vector > 1 ? k_aload(k, to, k_index(k, i), 1) : k_load(k, param, index, 1, 1);
        k_astore(k, to, k_index(k, i), k_select(k, is_in, value, nothing(s, x, type)));
    }
    return to;
}

// Which slice a thread brings, or puts: from word `from` of k on; number of those on their way.
typedef struct Turn {
    KRef from;
    uint32_t which;
} Turn;

// Words as they are, or elements as f32, into to[slot ...].
static void fetch_words(const GpuSimt *s, const GpuSide *x, Reach at, KRef to, KRef slot)
{
    Kernel *k = s->k;
    const KRef from = fetch_vector(s, x, at);
    for (int64_t i = 0; i < x->vector; i++)
        k_astore(k, to, k_expr(k, "$ + #", slot, i),
                 k_cast(k, k_aload(k, from, k_index(k, i), 1), x->has_words ? DTYPE_u32 : DTYPE_f32));
}

// Words of the bits of 16-bit floats, or of bytes.
static KRef pack(const GpuSimt *s, const KRef *parts, KRef from)
{
    Kernel *k = s->k;
    KRef word = 0;
    const int64_t bits = WORD_BITS / s->pair;
    for (int64_t i = 0; i < s->pair; i++) {
        const KRef wide = k_cast(k, k_aload(k, parts[i], from, 1), DTYPE_u32);
        const KRef own = k_and(k, wide, k_integer(k, DTYPE_u32, (INT64_C(1) << bits) - 1));
        word = i == 0 ? own : k_or(k, word, k_shl(k, own, k_integer(k, DTYPE_u32, bits * i)));
    }
    return word;
}

// Words of steps that are apart in memory.
static void fetch_pairs(const GpuSimt *s, const GpuSide *x, Reach at, KRef to, KRef slot)
{
    Kernel *k = s->k;
    KRef parts[GPU_SIMT_VECTOR] = {0};
    rlx_assert(s->pair <= GPU_SIMT_VECTOR);
    for (int64_t i = 0; i < s->pair; i++) {
        const Reach step = {at.line, k_expr(k, "$ + #", at.step, i)};
        parts[i] = fetch_vector(s, x, step);
    }
    for (int64_t i = 0; i < x->vector; i++)
        k_astore(k, to, k_expr(k, "$ + #", slot, i), pack(s, parts, k_index(k, i)));
}

// Calls fn for each access of the thread: all threads have the whole turns, some of them one more.
static void each_turn(const GpuSimt *s, const GpuSide *x, const Turn *t,
                      void (*fn)(const GpuSimt *s, const GpuSide *x, const Turn *t, KRef e))
{
    Kernel *k = s->k;
    const int64_t whole = chunks_of(s, x) / GPU_SIMT_THREADS, rest = chunks_of(s, x) % GPU_SIMT_THREADS;
    if (whole > 0) {
        fn(s, x, t, k_loop(k, whole, KFOR_UNROLL, "e"));
        k_end(k);
    }
    if (rest > 0) {
        k_if(k, k_expr(k, "$ < #", s->thread, rest));
        fn(s, x, t, k_index(k, whole));
        k_end(k);
    }
}

static void fetch_turn(const GpuSimt *s, const GpuSide *x, const Turn *t, KRef e)
{
    Kernel *k = s->k;
    const KRef from = t->from;
    const uint32_t which = t->which;
    const Chunk c = chunk_of(s, x, e);
    const Reach at = {.line = k_add(k, x->first, c.line),
                      .step = k_expr(k, "($ + $) * #", from, c.word, s->pair)};
    const KRef slot = k_expr(k, "$ * #", e, x->vector);
    if (s->pair == 1 || x->has_words)
        fetch_words(s, x, at, x->next[which], slot);
    else
        fetch_pairs(s, x, at, x->next[which], slot);
}

void gpu_side_fetch(const GpuSimt *s, const GpuSide *x, KRef from, uint32_t which)
{
    rlx_assert(from != 0 && which < s->ahead);
    if (s->unit == GPU_UNIT_COOP)
        gpu_coop_fetch(s, x, from, which);
    else
        each_turn(s, x, &(Turn){from, which}, fetch_turn);
}

KRef gpu_side_shift(const GpuSimt *s, KRef word)
{
    rlx_assert(word != 0);
    return s->unit == GPU_UNIT_SIMD ? k_index(s->k, 0)
                                    : k_expr(s->k, "$ / # % # * #", word, SHIFT_WORDS, SHIFTS, SHIFT);
}

static void put_turn(const GpuSimt *s, const GpuSide *x, const Turn *t, KRef e)
{
    Kernel *k = s->k;
    const Chunk c = chunk_of(s, x, e);
    const KRef line = k_xor(k, c.line, gpu_side_shift(s, c.word));
    const KRef first = k_expr(k, "$ * # + $", c.word, x->pitch, line);
    for (int64_t i = 0; i < x->vector; i++) // none of the vector's words is shifted otherwise than the first
        k_astore(k, x->shared, k_expr(k, "$ + #", first, i * (x->is_along_k ? x->pitch : 1)),
                 k_aload(k, x->next[t->which], k_expr(k, "$ * # + #", e, x->vector, i), 1));
}

void gpu_side_put(const GpuSimt *s, const GpuSide *x, uint32_t which)
{
    rlx_assert(x->shared != 0 && which < s->ahead);
    if (s->unit == GPU_UNIT_COOP)
        gpu_coop_put(s, x, which);
    else
        each_turn(s, x, &(Turn){0, which}, put_turn);
}
