// SPDX-License-Identifier: Apache-2.0
// Meaning of attention. Scores, weights and sums stay in double; the result is rounded once.
#include "ir/eval/eval_ops.h"
#include "ir/shape/forms.h"

#include <math.h>

typedef struct Attention {
    int64_t batch, heads, kv_heads, queries, keys, size, value_size;
    double scale, softcap;
    int64_t left, right, first; // how far a query sees, -1: to the end; the place of query 0 among the keys
    const double *q, *k, *v;
    const double *mask; // as the scores' addends, or NULL
    EvalWalk mask_walk; // offset 0: the mask's element of a row's first key; a walk over all scores
    int64_t mask_step;  // from one key to the next
    bool hides;         // masks by a choice, not by a sum
    bool is_guarded;
    int64_t live;       // keys that count
} Attention;

static Attention attention_of(EvalCtx *c)
{
    rlx_assert(c->in[0].rank >= 3 && c->in[1].rank == c->in[0].rank && c->in[2].rank == c->in[0].rank);
    const Tensor *q = &c->in[0], *k = &c->in[1], *v = &c->in[2];
    const AttentionForm form = attention_form(c->node);
    const uint32_t n = q->rank;
    Attention a = {
        .batch = eval_count(q, 0, n - 3),
        .heads = q->dim[n - 3],
        .kv_heads = k->dim[n - 3],
        .queries = q->dim[n - 2],
        .keys = k->dim[n - 2],
        .size = q->dim[n - 1],
        .value_size = v->dim[n - 1],
        .scale = form.scale,
        .softcap = form.softcap,
        .left = form.left,
        .right = form.is_causal ? 0 : form.right,
        .is_guarded = form.is_guarded,
    };
    if (a.scale == 0)
        a.scale = 1 / sqrt((double)a.size);
    a.live = eval_has(c, 4) ? tensor_get_i64(&c->in[4], 0) : a.keys;
    a.first = eval_has(c, 5) ? tensor_get_i64(&c->in[5], 0) : a.keys - a.queries;
    const int64_t most = INT64_C(1) << 40; // far behind all keys
    a.first = a.first > most ? most : a.first < -most ? -most : a.first;
    a.q = eval_doubles(c, 0);
    a.k = eval_doubles(c, 1);
    a.v = eval_doubles(c, 2);
    return a;
}

// A bool mask becomes 0 for keys to keep and -inf for the others. The walk goes over [..., heads, queries].
static void read_mask(EvalCtx *c, Attention *a)
{
    double *mask = eval_doubles(c, 3);
    const uint32_t n = c->in[0].rank;
    int64_t stride[SHAPE_MAX_RANK];
    a->mask = mask;
    a->mask_walk = (EvalWalk){.rank = n - 1, .n = 1, .dim = c->in[0].dim};
    if (mask == NULL)
        return;
    a->hides = c->in[3].dtype == DTYPE_bool;
    for (int64_t i = 0; a->hides && i < c->in[3].numel; i++)
        mask[i] = mask[i] != 0 ? 0 : -HUGE_VAL;
    eval_broadcast_strides(&c->in[3], n, stride);
    for (uint32_t i = 0; i + 1 < n; i++)
        a->mask_walk.stride[0][i] = stride[i];
    a->mask_step = stride[n - 1];
}

// The scores of one query; -inf for keys that it does not see. Returns the largest.
static double score_row(const Attention *a, int64_t head, int64_t query, double *score)
{
    const double *q = a->q + (head * a->queries + query) * a->size;
    const double *k = a->k + head / a->heads * a->kv_heads * a->keys * a->size +
                      head % a->heads / (a->heads / a->kv_heads) * a->keys * a->size;
    const int64_t place = query + a->first, begin = a->left < 0 ? 0 : place - a->left;
    const int64_t seen = a->right < 0 ? a->keys : place + a->right + 1;
    const int64_t end = seen < a->live ? seen : a->live;
    double top = -HUGE_VAL;
    for (int64_t j = 0; j < a->keys; j++) {
        double dot = 0;
        for (int64_t d = 0; d < a->size; d++)
            dot += q[d] * k[j * a->size + d];
        score[j] = dot * a->scale;
        if (a->softcap > 0)
            score[j] = a->softcap * tanh(score[j] / a->softcap);
        const double mask = a->mask != NULL ? a->mask[a->mask_walk.offset[0] + j * a->mask_step] : 0;
        if (j < begin || j >= end || (a->hides && mask != 0))
            score[j] = -HUGE_VAL;
        else
            score[j] += mask;
        top = isnan(top) || top > score[j] ? top : score[j];
    }
    return top;
}

// The weighted sums of the values, and of the weights; 0 when no key is visible.
static double mix_row(const Attention *a, int64_t head, double top, double *score, double *y)
{
    const double *v = a->v + head / a->heads * a->kv_heads * a->keys * a->value_size +
                      head % a->heads / (a->heads / a->kv_heads) * a->keys * a->value_size;
    double sum = 0;
    for (int64_t j = 0; top != -HUGE_VAL && j < a->keys; j++) {
        const double weight = exp(score[j] - top);
        sum += weight;
        // A hidden value counts as nothing even where it is infinite or NaN.
        for (int64_t d = 0; weight != 0 && d < a->value_size; d++)
            y[d] += weight * v[j * a->value_size + d];
    }
    return sum;
}

bool eval_attention(EvalCtx *c)
{
    Attention a = attention_of(c);
    const int64_t rows = a.batch * a.heads * a.queries;
    if (a.keys > 0 && !eval_check_work(c, rows, a.keys * (a.size + a.value_size)))
        return false;
    read_mask(c, &a);
    double *score = eval_scratch(c, a.keys), *y = eval_scratch(c, c->out[0].numel);
    for (int64_t i = 0; i < rows; i++, eval_walk_next(&a.mask_walk)) {
        const double top = score_row(&a, i / a.queries, i % a.queries, score);
        const double sum = mix_row(&a, i / a.queries, top, score, y + i * a.value_size);
        for (int64_t d = 0; top != -HUGE_VAL && d < a.value_size; d++)
            y[i * a.value_size + d] = a.is_guarded && isnan(sum) ? 0 : y[i * a.value_size + d] / sum;
    }
    eval_store(c, 0, y);
    return true;
}

// The first part has all keys.
bool eval_attention_part(EvalCtx *c)
{
    Attention a = attention_of(c);
    const int64_t rows = a.batch * a.heads * a.queries, size = a.value_size + ATTENTION_PART_EXTRA;
    const int64_t splits = attention_form(c->node).splits;
    rlx_assert(splits >= 1 && splits <= ATTENTION_MAX_PARTS);
    if (a.keys > 0 && !eval_check_work(c, rows, a.keys * (a.size + a.value_size)))
        return false;
    read_mask(c, &a);
    double *score = eval_scratch(c, a.keys), *y = eval_scratch(c, c->out[0].numel);
    for (int64_t i = 0; i < rows; i++, eval_walk_next(&a.mask_walk)) {
        double *row = y + i * splits * size;
        for (int64_t s = 1; s < splits; s++)
            row[s * size + a.value_size] = -HUGE_VAL;
        const double top = score_row(&a, i / a.queries, i % a.queries, score);
        row[a.value_size + 1] = mix_row(&a, i / a.queries, top, score, row);
        row[a.value_size] = top;
    }
    eval_store(c, 0, y);
    return true;
}

static void merge_row(const double *part, int64_t splits, int64_t size, bool is_guarded, double *y)
{
    const int64_t value_size = size - ATTENTION_PART_EXTRA;
    double top = -HUGE_VAL, sum = 0;
    for (int64_t s = 0; s < splits; s++) {
        const double of_part = part[s * size + value_size];
        top = isnan(top) || top > of_part ? top : of_part;
    }
    for (int64_t s = 0; s < splits && top != -HUGE_VAL; s++) {
        const double factor = exp(part[s * size + value_size] - top);
        sum += factor * part[s * size + value_size + 1];
        for (int64_t d = 0; d < value_size; d++)
            y[d] += factor * part[s * size + d];
    }
    for (int64_t d = 0; d < value_size && top != -HUGE_VAL; d++)
        y[d] = is_guarded && isnan(sum) ? 0 : y[d] / sum;
}

bool eval_attention_merge(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    rlx_assert(x->rank >= 2 && x->dim[x->rank - 1] >= ATTENTION_PART_EXTRA);
    const int64_t splits = x->dim[x->rank - 2], size = x->dim[x->rank - 1];
    const int64_t rows = eval_count(x, 0, x->rank - 2);
    const double *part = eval_doubles(c, 0);
    double *y = eval_scratch(c, c->out[0].numel);
    const bool is_guarded = node_get_int(c->node, A_attention_merge_guard) != 0;
    for (int64_t i = 0; i < rows; i++)
        merge_row(part + i * splits * size, splits, size, is_guarded, y + i * (size - ATTENTION_PART_EXTRA));
    eval_store(c, 0, y);
    return true;
}

bool eval_seen_blocks(EvalCtx *c)
{
    const Tensor *mask = &c->in[0];
    Tensor *out = &c->out[0];
    const int64_t n = mask->dim[mask->rank - 1], rows = eval_count(mask, 0, mask->rank - 1);
    const int64_t block = node_get_int(c->node, A_seen_blocks_block), pitch = out->dim[out->rank - 1];
    for (int64_t row = 0; row < rows; row++) {
        int64_t found = 0, behind = -1; // the last block that was seen
        for (int64_t i = 0; i < n; i++) {
            if (tensor_get_i64(mask, row * n + i) == 0 || i / block == behind)
                continue;
            behind = i / block;
            tensor_set_i64(out, row * pitch + ++found, behind);
        }
        tensor_set_i64(out, row * pitch, found);
    }
    return true;
}
