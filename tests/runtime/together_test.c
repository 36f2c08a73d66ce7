// SPDX-License-Identifier: Apache-2.0
// All that lives across runs at once (together.json with --bucket seq=3,5,8 --bucket batch=1,3 --handle bias
// --output-set sums=cached): random calls on three contexts, good and bad, against what they mean in a few
// lines of C. All numbers are small integers, so results are exact.
#include "check.h"
#include "together.h"

enum { SEQ = 8, BATCH = 3, CONTEXTS = 3, SNAPSHOTS = 4, STEPS = 6000 };

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[TOGETHER_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[TOGETHER_STATE_BYTES];
    rlx_ctx ctx;
} Blocks;

static Blocks one[CONTEXTS], before[CONTEXTS], last[CONTEXTS];

// What a context is.
typedef struct Meaning {
    int64_t size[2], held[2]; // held: the bucket's size that rlx_set_active_extent has asked for, else 0
    int has_gain, has_bias;
    float gain[SEQ], bias[4], history[SEQ][4], cache[SEQ][4];
} Meaning;

static Meaning meaning[CONTEXTS];

typedef struct Inputs {
    float x[BATCH * SEQ * 4], row[4];
    int64_t position[2];
} Inputs;

typedef struct Outputs {
    int64_t seq, batch;
    float history[SEQ * 4], cached[4], moved[BATCH * SEQ * 4];
} Outputs;

// Kept outputs, and what they must be; of none: batch 0.
static RLX_ALIGNED unsigned char snapshot[SNAPSHOTS][TOGETHER_SNAPSHOT_BYTES];
static Outputs kept[SNAPSHOTS];

static uint32_t seed = 1;

// 0 .. n - 1
static int64_t pick(int64_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int64_t)(seed >> 8) % n;
}

static float number(void)
{
    return (float)(pick(9) - 4);
}

static void numbers(float *to, int64_t n)
{
    while (n-- > 0)
        *to++ = number();
}

// --- what calls mean ---

static int rung(int64_t size, int which)
{
    static const int64_t rungs[2][3] = {{3, 5, 8}, {1, 3, 3}};
    int i = 0;
    while (rungs[which][i] < size)
        i++;
    return i;
}

static int bucket_of(const Meaning *m)
{
    const int seq = rung(m->held[0] != 0 ? m->held[0] : m->size[0], 0);
    return seq + 3 * rung(m->held[1] != 0 ? m->held[1] : m->size[1], 1);
}

static int is_ready(const Meaning *m)
{
    return m->has_gain && m->has_bias;
}

// The row is refused by the model's condition when it is negative.
static Inputs make_inputs(int64_t seq)
{
    Inputs in;
    int i;
    numbers(in.x, BATCH * SEQ * 4);
    for (i = 0; i < 4; i++)
        in.row[i] = (float)pick(8);
    if (pick(6) == 0)
        in.row[pick(4)] = -1;
    in.position[0] = pick(seq);
    in.position[1] = 0;
    return in;
}

static rlx_status status_of(const Inputs *in)
{
    int i, is_good = 1;
    for (i = 0; i < 4; i++)
        is_good = is_good && in->row[i] >= 0;
    return is_good ? RLX_OK : RLX_ERR_VALUE;
}

static Outputs mean_run(Meaning *m, const Inputs *in)
{
    const int64_t seq = m->size[0], batch = m->size[1];
    int64_t b, i, k;
    Outputs out;
    memset(&out, 0, sizeof out);
    out.seq = seq;
    out.batch = batch;
    for (k = 0; k < 4; k++)
        m->cache[in->position[0]][k] = in->row[k];
    for (i = 0; i < seq; i++)
        for (k = 0; k < 4; k++) {
            for (b = 0; b < batch; b++) {
                const float x = in->x[(b * seq + i) * 4 + k];
                m->history[i][k] += x;
                out.moved[(b * seq + i) * 4 + k] = x * m->gain[i] + m->bias[k];
            }
            out.history[i * 4 + k] = m->history[i][k];
            out.cached[k] += m->cache[i][k];
        }
    return out;
}

// --- comparing ---

static void compare(const Outputs *want, const void *history, const void *cached, const void *moved)
{
    const size_t seq = (size_t)want->seq, batch = (size_t)want->batch;
    CHECK(memcmp(history, want->history, seq * 16) == 0);
    CHECK(memcmp(cached, want->cached, 16) == 0);
    CHECK(memcmp(moved, want->moved, batch * seq * 16) == 0);
}

static void compare_context(const rlx_ctx *ctx, const Outputs *want)
{
    int64_t shape[RLX_MAX_RANK];
    CHECK(rlx_output_shape(ctx, TOGETHER_OUTPUT_moved, shape) == RLX_OK);
    CHECK(shape[0] == want->batch && shape[1] == want->seq && shape[2] == 4);
    compare(want, rlx_output(ctx, 0), rlx_output(ctx, 1), rlx_output(ctx, 2));
}

static void compare_snapshot(int i)
{
    int64_t shape[RLX_MAX_RANK];
    if (kept[i].batch == 0)
        return;
    compare(&kept[i], rlx_snapshot_output(&together_model, snapshot[i], 0, NULL),
            rlx_snapshot_output(&together_model, snapshot[i], 1, NULL),
            rlx_snapshot_output(&together_model, snapshot[i], 2, shape));
    CHECK(shape[0] == kept[i].batch && shape[1] == kept[i].seq);
}

static void compare_state(const rlx_ctx *ctx, const Meaning *m)
{
    float got[SEQ * 4];
    int64_t size = 0;
    uint32_t i;
    for (i = 0; i < 2; i++)
        CHECK(rlx_get_symbol(ctx, i, &size) == RLX_OK && size == m->size[i]);
    CHECK(rlx_bucket(ctx) == bucket_of(m));
    CHECK(rlx_input_bytes(ctx, TOGETHER_INPUT_x) == (size_t)(m->size[0] * m->size[1]) * 16);
    CHECK(rlx_read_state(ctx, "history", got, sizeof got) == RLX_OK &&
          memcmp(got, m->history, sizeof got) == 0);
    CHECK(rlx_read_handle(ctx, "cache", got, sizeof got) == RLX_OK && memcmp(got, m->cache, sizeof got) == 0);
    CHECK(rlx_has_handle(ctx, "gain") == m->has_gain && rlx_has_handle(ctx, "bias") == m->has_bias);
    CHECK(!m->has_gain || (rlx_read_handle(ctx, "gain", got, sizeof m->gain) == RLX_OK &&
                           memcmp(got, m->gain, sizeof m->gain) == 0));
    CHECK(!m->has_bias || (rlx_read_handle(ctx, "bias", got, sizeof m->bias) == RLX_OK &&
                           memcmp(got, m->bias, sizeof m->bias) == 0));
    CHECK((rlx_missing_param(ctx) == NULL) == is_ready(m));
}

// --- runs ---

static void give_inputs(const rlx_ctx *ctx, const Inputs *in)
{
    if (pick(2) == 0) // whatever was there
        memset(ctx->arena, 0xFF, TOGETHER_ARENA_BYTES);
    memcpy(rlx_input(ctx, TOGETHER_INPUT_x), in->x, rlx_input_bytes(ctx, TOGETHER_INPUT_x));
    memcpy(rlx_input(ctx, TOGETHER_INPUT_row), in->row, sizeof in->row);
    memcpy(rlx_input(ctx, TOGETHER_INPUT_position), in->position, sizeof in->position);
}

// In place: plainly, without waiting, for a set of outputs, with a feed.
static void step_run(rlx_ctx *ctx, Meaning *m)
{
    const Inputs in = make_inputs(m->size[0]);
    const rlx_feed feed = {"bias", TOGETHER_OUTPUT_cached};
    const int64_t how = pick(4);
    rlx_status status = RLX_OK;
    Outputs want;
    give_inputs(ctx, &in);
    if (!is_ready(m)) {
        REFUSES(rlx_run(ctx), RLX_ERR_PARAM);
        REFUSES(rlx_run_set(ctx, 0), RLX_ERR_PARAM);
        REFUSES(rlx_commit(ctx), RLX_ERR_PARAM);
        REFUSES(rlx_run_feed(ctx, &feed, 1), RLX_ERR_PARAM);
        return;
    }
    if (how == 0)
        status = rlx_run(ctx);
    else if (how == 1)
        status = rlx_commit(ctx) == RLX_OK ? rlx_sync(ctx) : RLX_ERR_SLOT;
    else if (how == 2)
        status = rlx_run_set(ctx, TOGETHER_SET_sums);
    else
        status = rlx_run_feed(ctx, &feed, 1);
    CHECK(status == status_of(&in) && ctx->outputs == 0);
    if (status != RLX_OK)
        return;
    want = mean_run(m, &in);
    if (how == 2)
        CHECK(memcmp(rlx_output(ctx, TOGETHER_OUTPUT_cached), want.cached, 16) == 0);
    else
        compare_context(ctx, &want);
    if (how == 3)
        memcpy(m->bias, want.cached, sizeof m->bias);
    else if (how != 2 && pick(2) == 0) {
        const int64_t i = pick(SNAPSHOTS);
        CHECK(rlx_take_snapshot(ctx, snapshot[i], sizeof snapshot[i]) == RLX_OK);
        kept[i] = want;
    }
}

// With memory of the caller: by slot, typed, by name.
static void step_run_copied(rlx_ctx *ctx, Meaning *m)
{
    const Inputs in = make_inputs(m->size[0]);
    const void *const inputs[3] = {in.x, in.row, in.position};
    static float history[SEQ * 4], cached[4], moved[BATCH * SEQ * 4];
    rlx_named named[3];
    rlx_named_out out[3];
    rlx_slot slots[3];
    const int64_t how = pick(3);
    rlx_status status;
    Outputs want;
    named[0].name = "position", named[0].data = in.position, named[0].bytes = sizeof in.position;
    named[1].name = "x", named[1].data = in.x, named[1].bytes = rlx_input_bytes(ctx, TOGETHER_INPUT_x);
    named[2].name = "row", named[2].data = in.row, named[2].bytes = sizeof in.row;
    out[0].name = "moved", out[0].data = moved, out[0].bytes = rlx_output_room(ctx, TOGETHER_OUTPUT_moved);
    out[1].name = "cached", out[1].data = cached, out[1].bytes = sizeof cached;
    out[2].name = "history_next", out[2].data = history;
    out[2].bytes = rlx_output_room(ctx, TOGETHER_OUTPUT_history_next);
    if (!is_ready(m)) {
        REFUSES(rlx_run_slots(ctx, inputs, slots), RLX_ERR_PARAM);
        REFUSES(together(ctx, in.x, in.row, in.position, history, cached, moved), RLX_ERR_PARAM);
        REFUSES(rlx_run_named(ctx, named, 3, out, 3), RLX_ERR_PARAM);
        return;
    }
    status = how == 0   ? rlx_run_slots(ctx, inputs, slots)
             : how == 1 ? together(ctx, in.x, in.row, in.position, history, cached, moved)
                        : rlx_run_named(ctx, named, 3, out, 3);
    CHECK(status == status_of(&in));
    if (status != RLX_OK)
        return;
    want = mean_run(m, &in);
    compare_context(ctx, &want);
    if (how != 0)
        compare(&want, history, cached, moved);
    else
        CHECK(slots[2].bytes == (size_t)(want.seq * want.batch) * 16 &&
              ctx->arena + slots[2].offset == rlx_output(ctx, 2));
}

// At sizes of its own, which stay only when the run ends well.
static void step_run_padded(rlx_ctx *ctx, Meaning *m)
{
    const int64_t sizes[2] = {pick(10) == 0 ? SEQ + 1 : 1 + pick(SEQ),
                              pick(10) == 0 ? RLX_KEEP : 1 + pick(BATCH)};
    const uint32_t n = 1 + (uint32_t)pick(2);
    const Inputs in = make_inputs(sizes[0]);
    const void *const inputs[3] = {in.x, in.row, in.position};
    static float history[SEQ * 4], cached[4], moved[BATCH * SEQ * 4];
    void *const outputs[3] = {history, cached, moved};
    rlx_status status;
    Outputs want;
    if (!is_ready(m) || sizes[0] > SEQ) {
        REFUSES(rlx_run_padded(ctx, sizes, n, inputs, outputs), is_ready(m) ? RLX_ERR_RANGE : RLX_ERR_PARAM);
        return;
    }
    status = rlx_run_padded(ctx, sizes, n, inputs, outputs);
    CHECK(status == status_of(&in));
    if (status != RLX_OK)
        return;
    m->size[0] = sizes[0];
    m->held[0] = 0;
    if (n == 2 && sizes[1] != RLX_KEEP) {
        m->size[1] = sizes[1];
        m->held[1] = 0;
    }
    want = mean_run(m, &in);
    compare(&want, history, cached, moved);
    compare_context(ctx, &want);
}

// Two runs, each with a snapshot of its own; one that fails is the last.
static void step_pipelined(rlx_ctx *ctx, Meaning *m)
{
    const Inputs in[2] = {make_inputs(m->size[0]), make_inputs(m->size[0])};
    const void *inputs[6];
    const int64_t at = pick(SNAPSHOTS - 1);
    rlx_status want = RLX_OK;
    uint32_t done = 9, i, n = 0;
    for (i = 0; i < 2; i++) {
        inputs[i * 3] = in[i].x;
        inputs[i * 3 + 1] = in[i].row;
        inputs[i * 3 + 2] = in[i].position;
    }
    if (!is_ready(m)) {
        CHECK(rlx_run_pipelined(ctx, inputs, 2, snapshot[at], 2 * sizeof *snapshot, &done) == RLX_ERR_PARAM);
        CHECK(done == 0);
        return;
    }
    for (; n < 2 && want == RLX_OK; n += want == RLX_OK) {
        want = status_of(&in[n]);
        if (want == RLX_OK)
            kept[at + n] = mean_run(m, &in[n]);
    }
    CHECK(rlx_run_pipelined(ctx, inputs, 2, snapshot[at], 2 * sizeof *snapshot, &done) == want);
    CHECK(done == n);
}

// --- sizes, params and states ---

static void step_sizes(rlx_ctx *ctx, Meaning *m)
{
    const uint32_t which = (uint32_t)pick(2);
    const int64_t most = which == 0 ? SEQ : BATCH, value = pick(most + 2);
    const int64_t both[2] = {pick(3) == 0 ? RLX_KEEP : pick(SEQ + 2),
                             pick(3) == 0 ? RLX_KEEP : pick(BATCH + 2)};
    int i;
    if (pick(2) == 0) {
        if (value < 1 || value > most) {
            REFUSES(together_set_symbol(ctx, which, value), RLX_ERR_RANGE);
            return;
        }
        CHECK(rlx_set_symbol(ctx, which, value) == RLX_OK);
        m->size[which] = value;
        m->held[which] = 0;
        return;
    }
    if (both[0] == 0 || both[0] > SEQ || both[1] == 0 || both[1] > BATCH) {
        REFUSES(rlx_set_symbols(ctx, both, 2), RLX_ERR_RANGE);
        return;
    }
    CHECK(rlx_set_symbols(ctx, both, 2) == RLX_OK);
    for (i = 0; i < 2; i++)
        if (both[i] != RLX_KEEP) {
            m->size[i] = both[i];
            m->held[i] = 0;
        }
}

static void step_extent(rlx_ctx *ctx, Meaning *m)
{
    static const int64_t rungs[2][3] = {{3, 5, 8}, {1, 3, 3}};
    const uint32_t which = (uint32_t)pick(2);
    const int64_t most = which == 0 ? SEQ : BATCH, actual = pick(most + 2), upper = pick(most + 2);
    if (actual < 1 || actual > upper || upper > most) {
        REFUSES(rlx_set_active_extent(ctx, which, actual, upper), RLX_ERR_RANGE);
        return;
    }
    CHECK(rlx_set_active_extent(ctx, which, actual, upper) == RLX_OK);
    m->size[which] = actual;
    m->held[which] = rungs[which][rung(upper, (int)which)];
}

static void step_gain(rlx_ctx *ctx, Meaning *m)
{
    float values[SEQ];
    double wide[SEQ];
    const int64_t how = pick(4), at = pick(SEQ);
    int i;
    numbers(values, SEQ);
    for (i = 0; i < SEQ; i++)
        wide[i] = (double)values[i];
    if (how == 0) {
        CHECK(rlx_set_param(ctx, "gain", values, SEQ) == RLX_OK);
    } else if (how == 1) {
        CHECK(rlx_set_param_typed(ctx, "gain", wide, sizeof wide, RLX_F64) == RLX_OK);
    } else if (how == 2 && !m->has_gain) {
        REFUSES(rlx_set_param_range(ctx, "gain", 0, values, 4), RLX_ERR_PARAM);
        return;
    } else if (how == 2) {
        CHECK(rlx_set_param_range(ctx, "gain", (size_t)at * 4, values, 4) == RLX_OK);
        m->gain[at] = values[0];
        return;
    } else {
        CHECK(rlx_clear_handle(ctx, "gain") == RLX_OK);
        m->has_gain = 0;
        return;
    }
    memcpy(m->gain, values, sizeof values);
    m->has_gain = 1;
}

static void step_handles(rlx_ctx *ctx, Meaning *m)
{
    float values[SEQ][4];
    numbers(values[0], SEQ * 4);
    switch (pick(7)) {
    case 0:
    case 1:
        CHECK(rlx_bind_handle(ctx, "bias", values, sizeof m->bias) == RLX_OK);
        memcpy(m->bias, values, sizeof m->bias);
        m->has_bias = 1;
        break;
    case 2:
        CHECK(rlx_bind_handle(ctx, "cache", values, sizeof values) == RLX_OK);
        memcpy(m->cache, values, sizeof values);
        break;
    case 3:
        CHECK(rlx_write_state(ctx, "history", values, sizeof values) == RLX_OK);
        memcpy(m->history, values, sizeof values);
        break;
    case 4:
        CHECK(rlx_reset(ctx) == RLX_OK);
        memset(m->history, 0, sizeof m->history);
        memset(m->cache, 0, sizeof m->cache);
        break;
    case 5:
        CHECK(rlx_clear_handle(ctx, "history") == RLX_OK);
        memset(m->history, 0, sizeof m->history);
        break;
    default:
        CHECK(rlx_clear_handle(ctx, "bias") == RLX_OK);
        m->has_bias = 0;
    }
}

static void step_clone(int from)
{
    const int to = (from + 1 + (int)pick(CONTEXTS - 1)) % CONTEXTS;
    Blocks *b = &one[to];
    const rlx_ctx *ctx = &one[from].ctx;
    REFUSES(rlx_clone(&b->ctx, ctx, b->arena, sizeof b->arena - 1, b->state, sizeof b->state), RLX_ERR_ARENA);
    REFUSES(rlx_clone(&b->ctx, ctx, b->arena, sizeof b->arena, b->state, sizeof b->state - 1), RLX_ERR_ARENA);
    REFUSES(rlx_clone(&b->ctx, ctx, b->arena + 8, sizeof b->arena, b->state, sizeof b->state),
            RLX_ERR_ALIGNMENT);
    REFUSES(rlx_clone(&b->ctx, &b->ctx, b->arena, sizeof b->arena, b->state, sizeof b->state), RLX_ERR_NULL);
    CHECK(rlx_clone(&b->ctx, ctx, b->arena, sizeof b->arena, b->state, sizeof b->state) == RLX_OK);
    meaning[to] = meaning[from];
    compare_state(&b->ctx, &meaning[to]);
    last[to] = one[to]; // the only other context that the step may change
}

static void step_refused(rlx_ctx *ctx, const Meaning *m)
{
    float values[SEQ * 4] = {0};
    const int64_t none[3] = {RLX_KEEP, RLX_KEEP, 1};
    const void *const inputs[3] = {values, NULL, values};
    void *const outputs[3] = {values, values, values};
    rlx_feed feed = {"gain", TOGETHER_OUTPUT_cached};
    REFUSES(rlx_set_symbol(ctx, 2, 1), RLX_ERR_SYMBOL);
    REFUSES(rlx_set_symbols(ctx, none, 3), RLX_ERR_SYMBOL);
    REFUSES(rlx_set_active_extent(ctx, 2, 1, 1), RLX_ERR_SYMBOL);
    REFUSES(rlx_set_param(ctx, "cache", values, SEQ * 4), RLX_ERR_NAME);
    REFUSES(rlx_set_param(ctx, "gain", values, SEQ - 1), RLX_ERR_SIZE);
    REFUSES(rlx_bind_handle(ctx, "x", values, sizeof values), RLX_ERR_HANDLE);
    REFUSES(rlx_bind_handle(ctx, "bias", values, sizeof values), RLX_ERR_SIZE);
    REFUSES(rlx_clear_handle(ctx, "moved"), RLX_ERR_HANDLE);
    REFUSES(rlx_write_state(ctx, "gain", values, sizeof values), RLX_ERR_NAME);
    REFUSES(rlx_run_slots(ctx, inputs, NULL), RLX_ERR_NULL);
    REFUSES(rlx_run_padded(ctx, none, 2, inputs, outputs), RLX_ERR_NULL);
    REFUSES(rlx_run_feed(ctx, &feed, 1), RLX_ERR_SIZE);
    REFUSES(rlx_run_set(ctx, 1), RLX_ERR_SLOT);
    REFUSES(rlx_take_snapshot(ctx, snapshot[0], sizeof snapshot[0] - 1), RLX_ERR_SIZE);
    if (!m->has_bias)
        REFUSES(rlx_read_handle(ctx, "bias", values, 16), RLX_ERR_HANDLE);
}

// --- all together ---

static void step(int c)
{
    rlx_ctx *ctx = &one[c].ctx;
    Meaning *m = &meaning[c];
    switch (pick(16)) {
    case 0:
        step_gain(ctx, m);
        break;
    case 1:
        step_handles(ctx, m);
        break;
    case 2:
        step_clone(c);
        break;
    case 3:
        step_extent(ctx, m);
        break;
    case 4:
    case 5:
        step_sizes(ctx, m);
        break;
    case 6:
        step_refused(ctx, m);
        break;
    case 7:
        step_pipelined(ctx, m);
        break;
    case 8:
    case 9:
        step_run_padded(ctx, m);
        break;
    case 10:
    case 11:
        step_run_copied(ctx, m);
        break;
    default:
        step_run(ctx, m);
    }
    compare_state(ctx, m);
}

int main(void)
{
    static const int64_t first[2] = {3, 1};
    int i, s;
    memset(one, 0xFF, sizeof one);
    for (i = 0; i < CONTEXTS; i++) {
        CHECK(together_init(&one[i].ctx, one[i].arena, sizeof one[i].arena, one[i].state,
                            sizeof one[i].state) == RLX_OK);
        memcpy(meaning[i].size, first, sizeof first);
        compare_state(&one[i].ctx, &meaning[i]);
    }
    for (s = 0; s < STEPS && !failed; s++) {
        const int c = (int)pick(CONTEXTS);
        memcpy(last, one, sizeof last);
        step(c);
        for (i = 0; i < CONTEXTS; i++)
            CHECK(i == c || memcmp(&last[i], &one[i], sizeof one[i]) == 0);
        compare_snapshot((int)pick(SNAPSHOTS));
        if (failed)
            fprintf(stderr, "in step %d\n", s);
    }
    return failed;
}
