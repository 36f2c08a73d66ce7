// SPDX-License-Identifier: Apache-2.0
// The graph of a language model: embedding, layers of two branches each, and logits or embeddings. If they
// are those of the last token, only its row goes through what follows the attention of the last layer.
#include "compiler/import/llm/llm_build.h"

#include <math.h>

// --- sizes and positions ---

static bool choose_context(LlmBuild *b, const LlmOptions *o)
{
    const int64_t own = llm_count(b, LLM_KEY_context);
    b->context = o->context != 0 ? o->context : own < LLM_DEFAULT_CONTEXT ? own : LLM_DEFAULT_CONTEXT;
    const int64_t window = llm_count(b, LLM_KEY_window);
    if (b->arch->window_period == 0 && b->number[LLM_KEY_windowed] < 0 && window != 0 && window < b->context)
        return llm_fail(b, E0115, "entry '%s' is %lld, but %s has no windows here",
                        llm_key_name(b, LLM_KEY_window), (long long)window, b->arch->name);
    if (b->slots != 0) // the rows of all sequences together
        return true;
    if (b->context > own && llm_has(b, LLM_LEARNED))
        return llm_fail(b, E0115, "a context of %lld tokens: the model has positions for %lld",
                        (long long)b->context, (long long)own);
    if (b->context > own)
        diag_warning(b->diag, b->source->span, E0115,
                     "a context of %lld tokens is longer than the %lld for which the model was made",
                     (long long)b->context, (long long)own);
    return true;
}

static int64_t sequences_of(const LlmOptions *o)
{
    return o->slots != 0 ? o->slots : 1;
}

// Options that the architecture has no use for, or that do not go together.
static bool check_options(LlmBuild *b, const LlmOptions *o)
{
    if (llm_has(b, LLM_ENCODER) && (o->slots != 0 || o->outputs != 0))
        return llm_fail(b, E0003, "--slots and --outputs: %s makes one vector of one text", b->arch->name);
    if (o->slots != 0 && (o->has_rings || llm_has(b, LLM_SINKS)))
        return llm_fail(b, E0003, "--slots: expected %s: pages have no such rows",
                        o->has_rings ? "--windows all" : "a model without attention sinks");
    if (llm_has(b, LLM_SPEECH) && o->slots != 0)
        return llm_fail(b, E0003, "--slots: %s hears one sound at a time", b->arch->name);
    if (o->drafts != 0 && (llm_has(b, LLM_ENCODER) || llm_has(b, LLM_SSM)))
        return llm_fail(b, E0003, "--drafts: %s cannot go back to earlier tokens", b->arch->name);
    if (o->drafts != 0 && (o->outputs & (LLM_GIVES_ALL | LLM_GIVES_STATE)) != 0)
        return llm_fail(b, E0003, "--drafts: expected --outputs last, or last,mean");
    if (o->drafts != 0 && llm_chunk(b->context) <= sequences_of(o))
        return llm_fail(b, E0003, "--drafts: a run takes %lld tokens, which leaves no room for guesses",
                        (long long)llm_chunk(b->context));
    if (llm_has(b, LLM_SSM) && (o->slots != 0 || o->has_rings || o->has_f16_caches))
        return llm_fail(b, E0003, "--slots, --kv and --windows: %s has no caches of rows", b->arch->name);
    return true;
}

static NodeId ones_of(LlmBuild *b, Dim size)
{
    return llm_expand(b, llm_int(b, 1), 1, &size);
}

// The value of a symbol: as many ones, added up.
static NodeId count_of(LlmBuild *b, Dim size)
{
    NodeBuild n = llm_begin(b, OP_reduce_sum, NULL);
    node_reduce(&n, ones_of(b, size), NULL, 0, true);
    return llm_end(b, &n);
}

NodeId llm_count_rows(LlmBuild *b, Dim rows)
{
    NodeBuild nth = llm_begin(b, OP_cumsum, NULL);
    node_src(&nth, ones_of(b, rows));
    node_int(&nth, A_cumsum_axis, 0);
    node_int(&nth, A_cumsum_exclusive, 1);
    return llm_end(b, &nth);
}

// With drafts: as many rows as programs want logits of.
static void make_logit_rows(LlmBuild *b, const LlmOptions *o, int64_t most_rows)
{
    const int64_t most = sequences_of(o) * (1 + o->drafts);
    if (o->drafts == 0)
        return;
    b->l = dim_symbol(b->graph->dims, LLM_LOGIT_ROWS, 1, most < most_rows ? most : most_rows, 1);
    dim_set_default(b->graph->dims, LLM_LOGIT_ROWS, 1);
}

// The last L of the T rows; where there are fewer, the first one takes the place of what is missing.
static NodeId last_rows(LlmBuild *b)
{
    const NodeId first = llm_op2(b, OP_sub, count_of(b, b->t), count_of(b, b->l));
    return llm_op2(b, OP_max, llm_op2(b, OP_add, llm_count_rows(b, b->l), first), llm_int1(b, 0));
}

static void make_positions(LlmBuild *b, const LlmOptions *o)
{
    DimTable *dims = b->graph->dims;
    b->p = dim_symbol(dims, "P", 0, b->context - 1, 1);
    dim_set_default(dims, "T", 1);
    dim_set_default(dims, "P", 0);
    const NodeId past = count_of(b, b->p);
    b->positions = llm_op2(b, OP_add, llm_count_rows(b, b->t), past);
    const NodeId zero = llm_int1(b, 0);
    NodeBuild start = llm_begin(b, OP_concat, NULL);
    node_concat(&start, (const NodeId[]){zero, past, zero}, 3, 0);
    b->start = llm_end(b, &start);
    b->past = past;
    b->final = llm_op2(b, OP_sub, count_of(b, b->t), llm_int1(b, 1));
    b->last = o->drafts != 0 ? last_rows(b) : b->final;
}

// --- layers ---

static NodeId embed(LlmBuild *b, NodeId tokens)
{
    const int64_t width = llm_count(b, LLM_KEY_width);
    NodeId x = llm_rows(b, LLM_token_embd, width, tokens);
    if (llm_has(b, LLM_LEARNED))
        x = llm_op2(b, OP_add, x, llm_rows(b, LLM_position_embd, width, b->positions));
    x = llm_times(b, x, llm_has(b, LLM_EMBED_SQRT) ? sqrt((double)width) : 1);
    return llm_times(b, x, b->number[LLM_KEY_embed_scale]);
}

static NodeId add_branch(LlmBuild *b, NodeId x, NodeId y, LlmRole norm)
{
    if (llm_has(b, LLM_POST_NORMS))
        y = llm_norm(b, y, norm);
    return llm_op2(b, OP_add, x, llm_times(b, y, b->number[LLM_KEY_branch_scale]));
}

// Do the outputs need the states of all tokens?
static bool gives_rows(const LlmBuild *b)
{
    return (b->outputs & (LLM_GIVES_ALL | LLM_GIVES_MEAN)) != 0;
}

// Only the last tokens go on.
static NodeId last_of(LlmBuild *b, NodeId x)
{
    if (b->slots != 0)
        b->row_slot = llm_gather(b, b->slot, b->last);
    return llm_gather(b, x, b->last);
}

// A layer of one branch.
static NodeId add_ssm_layer(LlmBuild *b, NodeId x)
{
    NodeId y = llm_ssm(b, llm_norm(b, x, LLM_attn_norm));
    if (b->layer + 1 == llm_count(b, LLM_KEY_layers) && !gives_rows(b)) {
        y = last_of(b, y);
        x = last_of(b, x);
    }
    return llm_op2(b, OP_add, x, llm_product(b, y, LLM_ssm_out, llm_count(b, LLM_KEY_width)));
}

static NodeId add_layer(LlmBuild *b, NodeId x)
{
    if (llm_has(b, LLM_SSM))
        return add_ssm_layer(b, x);
    const bool is_last = b->layer + 1 == llm_count(b, LLM_KEY_layers), pre = !llm_has(b, LLM_NO_PRE_NORMS);
    NodeId y = llm_attention(b, pre ? llm_norm(b, x, LLM_attn_norm) : x);
    if (is_last && !gives_rows(b)) {
        y = last_of(b, y);
        x = last_of(b, x);
    }
    y = llm_product(b, y, LLM_attn_output, llm_count(b, LLM_KEY_width));
    x = add_branch(b, x, y, LLM_attn_post_norm);
    if (llm_has(b, LLM_SPEECH))
        x = llm_op2(b, OP_add, x, llm_hear(b, llm_norm(b, x, LLM_cross_norm)));
    const LlmRole second = llm_has(b, LLM_NORM_BETWEEN) ? LLM_attn_post_norm : LLM_ffn_norm;
    y = llm_ffn(b, pre ? llm_norm(b, x, second) : x);
    return add_branch(b, x, y, LLM_ffn_post_norm);
}

// x: normed
static NodeId make_logits(LlmBuild *b, NodeId x)
{
    const LlmRole role = llm_vocabulary(b);
    const double cap = b->number[LLM_KEY_final_softcap];
    NodeId y = llm_product(b, x, role, llm_size(b, role, 0));
    y = llm_times(b, y, 1 / b->number[LLM_KEY_logit_scale]);
    if (cap != 0)
        y = llm_times(b, llm_op1(b, OP_tanh, llm_times(b, y, 1 / cap)), cap);
    return y;
}

enum {
    PART = 1024,     // logits that a group of threads searches
    MOST_PARTS = 512 // that are put in order at once
};

// Rows with -inf behind their logits, so that they are whole parts.
static NodeId fill_parts(LlmBuild *b, NodeId logits, int64_t n, int64_t part)
{
    const int64_t pads[] = {0, 0, 0, (part - n % part) % part};
    NodeBuild pad = llm_begin(b, OP_pad, NULL);
    node_src(&pad, logits);
    node_src(&pad, llm_number(b, -HUGE_VAL));
    node_ints(&pad, A_pad_pads, pads, 4);
    return llm_end(b, &pad);
}

static NodeId search(LlmBuild *b, NodeId x, int64_t axis)
{
    NodeBuild place = llm_begin(b, OP_argmax, NULL);
    node_src(&place, x);
    node_int(&place, A_argmax_axis, axis);
    return llm_end(b, &place);
}

// Of each row of x [rows, parts, n], the part with that number: [rows, n].
static NodeId one_part(LlmBuild *b, NodeId x, NodeId number)
{
    const Dim *dim = graph_node(b->graph, x)->shape->dim, rows = dim[0], parts = dim[1];
    const Dim all[] = {dim_mul(b->graph->dims, rows, parts), dim[2]};
    const NodeId first = llm_op2(b, OP_mul, llm_count_rows(b, rows), llm_int(b, parts));
    return llm_gather(b, llm_reshape(b, x, 2, all), llm_op2(b, OP_add, first, number));
}

// The least token whose logit is the largest; as many as there are where NaN is among them, and where none is
// above minus infinity. Many groups of threads find the largest of a part each (a single one takes 37 us for
// 128256 logits on an H200); then only the part that has the largest one of all is searched. Numbers of
// tokens without a divisor that is near (50257 is a prime) are filled up.
static NodeId best_tokens(LlmBuild *b, NodeId logits)
{
    if (logits == 0)
        return 0;
    const Shape *s = graph_node(b->graph, logits)->shape;
    const int64_t given = s->dim[1], least_parts = (given + PART - 1) / PART;
    int64_t parts = least_parts, n = given;
    while (n % parts != 0 && parts < 16 * least_parts)
        parts++;
    if (n % parts != 0) {
        parts = least_parts;
        n = parts * PART;
        logits = fill_parts(b, logits, given, PART);
    }
    const Dim split[] = {s->dim[0], parts, n / parts};
    const NodeId rows = llm_reshape(b, logits, 3, split);
    const NodeId most = llm_reduce(b, OP_reduce_max, rows, 2, false), part = search(b, most, 1);
    const NodeId begin = llm_op2(b, OP_mul, part, llm_int(b, n / parts));
    const NodeId token = llm_op2(b, OP_add, search(b, one_part(b, rows, part), 1), begin);
    const NodeId is_any =
        llm_op2(b, OP_gt, llm_reduce(b, OP_reduce_max, most, 1, false), llm_number(b, -HUGE_VAL));
    return llm_op3(b, OP_where, is_any, token, llm_int(b, given));
}

static NodeId top(LlmBuild *b, NodeId x, NodeId *places)
{
    const int64_t k = LLM_TOP_TOKENS;
    NodeBuild n = llm_begin(b, OP_top_k, NULL);
    node_src(&n, x);
    node_ints(&n, A_top_k_k, &k, 1);
    const NodeId values = llm_end(b, &n);
    *places = b->failed ? 0 : graph_result(b->graph, values, 1);
    return values;
}

// The parts of a list whose largest elements are the largest: they have all of the best ones. tokens: those
// of the list, 0: its places.
static void keep_parts(LlmBuild *b, NodeId *list, NodeId *tokens, int64_t *n)
{
    int64_t size = 1;
    while (*n > MOST_PARTS * size)
        size *= 2;
    const Dim parts[] = {(*n + size - 1) / size, size}, chosen[] = {LLM_TOP_TOKENS, 1};
    if (*n % size != 0)
        *list = fill_parts(b, *list, *n, size);
    const Dim all[] = {LLM_TOP_TOKENS * size};
    const NodeId rows = llm_reshape(b, *list, 2, parts);
    NodeId part = 0, number = 0;
    (void)top(b, llm_reduce(b, OP_reduce_max, rows, 1, false), &part);
    if (*tokens != 0) {
        number = llm_gather(b, llm_reshape(b, *tokens, 2, parts), part);
    } else {
        int64_t *first = ARENA_ARRAY(b->arena, int64_t, size);
        for (int64_t i = 0; i < size; i++)
            first[i] = i;
        const NodeId begin = llm_op2(b, OP_mul, llm_reshape(b, part, 2, chosen), llm_int(b, size));
        number = llm_op2(b, OP_add, begin, llm_const(b, DTYPE_i64, 1, &parts[1], first));
    }
    *list = llm_reshape(b, llm_gather(b, rows, part), 1, all);
    *tokens = llm_reshape(b, number, 1, all);
    *n = all[0];
}

// The largest logits of a row, from which most settings draw, and their tokens; of equal ones any. In steps,
// as the time of a search grows with what is searched. 0: there are too few.
static NodeId top_tokens(LlmBuild *b, NodeId logits, NodeId *tokens)
{
    const Shape *s = logits != 0 ? graph_node(b->graph, logits)->shape : NULL;
    if (s == NULL || s->dim[0] != 1 || s->dim[1] < LLM_TOP_TOKENS)
        return 0;
    int64_t n = s->dim[1];
    NodeId list = logits, numbers = 0, place = 0;
    while (!b->failed && n > MOST_PARTS)
        keep_parts(b, &list, &numbers, &n);
    const NodeId values = top(b, llm_reshape(b, list, 1, (const Dim[]){n}), &place);
    *tokens = numbers != 0 ? llm_gather(b, numbers, place) : place;
    return values;
}

// From the states behind the layers. False: reported.
static bool make_outputs(LlmBuild *b, NodeId x)
{
    const uint32_t gives = b->outputs;
    const bool gives_logits = (gives & (LLM_GIVES_LAST | LLM_GIVES_ALL)) != 0;
    const NodeId rows = llm_norm(b, x, LLM_output_norm);
    NodeId logits = 0, embedding = 0, best = 0, few = 0, tokens = 0;
    if ((gives & LLM_GIVES_ALL) != 0)
        logits = make_logits(b, rows);
    const NodeId last = gives_rows(b) ? last_of(b, rows) : rows;
    if ((gives & LLM_GIVES_ALL) == 0 && gives_logits)
        logits = make_logits(b, last);
    if (!gives_logits)
        llm_leave_out(b, LLM_output);
    if (b->gives_best && (gives & LLM_GIVES_LAST) != 0)
        best = best_tokens(b, logits);
    if (best != 0 && b->slots == 0)
        few = top_tokens(b, logits, &tokens);
    if ((gives & (LLM_GIVES_STATE | LLM_GIVES_MEAN)) != 0)
        embedding = (gives & LLM_GIVES_MEAN) != 0 ? llm_reduce(b, OP_reduce_mean, rows, 0, true) : last;
    if (!llm_check_all_used(b))
        return false;
    if (logits != 0)
        graph_output(b->graph, "logits", logits);
    if (embedding != 0)
        graph_output(b->graph, "embedding", embedding);
    if (best != 0)
        graph_output(b->graph, LLM_BEST, best);
    if (few != 0 && !b->failed) {
        graph_output(b->graph, LLM_TOP, few);
        graph_output(b->graph, "top_tokens", tokens);
    }
    for (uint32_t i = 0; i < b->factors.len; i++) {
        const NodeId of = b->factors.data[i].x; // [rows, columns]
        const NodeId sum = llm_reduce(b, OP_reduce_sum, llm_op2(b, OP_mul, of, of), 0, false);
        if (b->failed)
            return false;
        graph_output(b->graph, b->factors.data[i].output, sum);
    }
    return true;
}

static bool make_decoder(LlmBuild *b, const LlmOptions *o)
{
    const bool is_ssm = llm_has(b, LLM_SSM);
    const int64_t most_rows = is_ssm ? llm_ssm_rows(b) : llm_chunk(b->context);
    b->t = dim_symbol(b->graph->dims, "T", 1, most_rows, 1);
    make_logit_rows(b, o, most_rows);
    if (b->slots == 0)
        make_positions(b, o);
    const NodeId tokens = llm_input(b, "tokens", 1, &b->t);
    if (b->slots != 0)
        llm_make_slots(b);
    llm_make_rings(b);
    llm_make_sinks(b);
    if (!is_ssm)
        llm_make_angles(b);
    if (llm_has(b, LLM_SPEECH))
        llm_make_encoded(b);
    NodeId x = embed(b, tokens);
    for (uint32_t i = 0; !b->failed && i < (uint32_t)llm_count(b, LLM_KEY_layers); i++)
        x = llm_read_layer(b, i) ? add_layer(b, x) : 0;
    return make_outputs(b, b->failed ? 0 : x);
}

bool import_llm(Arena *a, Diag *d, const LlmSource *source, const LlmOptions *options, Graph **out)
{
    rlx_assert(source->number != NULL && source->tensor != NULL && source->unasked != NULL);
    rlx_assert(options->context >= 0);
    LlmBuild b = {.arena = a, .diag = d, .source = source};
    b.slots = options->slots;
    b.gives_best = options->gives_best;
    b.outputs = options->outputs != 0 ? options->outputs : LLM_GIVES_LAST;
    b.cache = options->has_f16_caches ? DTYPE_f16 : DTYPE_f32;
    b.has_bf16_rows = options->has_bf16_rows;
    b.has_rings = options->has_rings;
    b.measures = options->measures;
    b.reads = options->reads;
    b.adapters = options->adapters;
    b.n_adapters = options->n_adapters;
    *out = NULL;
    if (!llm_read_numbers(&b) || !choose_context(&b, options) || !check_options(&b, options))
        return false;
    b.graph = graph_new(a, d, "model");
    if (!llm_begin_adapters(&b))
        return false;
    const bool is_made = llm_has(&b, LLM_ENCODER) ? llm_make_encoder(&b) : make_decoder(&b, options);
    *out = is_made ? b.graph : NULL;
    return is_made;
}
