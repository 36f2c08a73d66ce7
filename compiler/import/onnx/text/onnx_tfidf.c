// SPDX-License-Identifier: Apache-2.0
// TfIdfVectorizer: how often each n-gram of a pool stands in a line. An n-gram with skip s has its n items s
// + 1 apart. For every length and skip, slices of the line that are shifted against each other are compared
// with all n-grams of that length at once.
#include "compiler/import/onnx/onnx_text.h"

#include <string.h>

typedef struct Pool {
    const Onnx__AttributeProto *counts, *indexes, *ints, *strings;
    size_t n_items; // of the pool
    int64_t min, max, skips;
    NodeId items; // of the pool, i64: numbers, or places in the pool
} Pool;

static bool read_pool(OnnxNode *n, Pool *p)
{
    p->counts = onnx_attr(n, "ngram_counts");
    p->indexes = onnx_attr(n, "ngram_indexes");
    p->ints = onnx_has_attr(n, "pool_int64s") ? onnx_attr(n, "pool_int64s") : NULL;
    p->strings = onnx_has_attr(n, "pool_strings") ? onnx_attr(n, "pool_strings") : NULL;
    p->min = onnx_int(n, "min_gram_length", 1);
    p->max = onnx_int(n, "max_gram_length", 1);
    p->skips = onnx_int(n, "max_skip_count", 0);
    if (n->failed)
        return false;
    if (!p->counts || !p->indexes || (!p->ints && !p->strings))
        return onnx_fail(n, E0203, "needs 'ngram_counts', 'ngram_indexes' and a pool");
    if (p->min < 1 || p->max < p->min || p->skips < 0 || (uint64_t)p->max > p->counts->n_ints ||
        p->counts->n_ints > ONNX_MAX_LIST)
        return onnx_fail(n, E0203,
                         "n-grams of %lld to %lld items with up to %lld skips do not fit %zu counts",
                         (long long)p->min, (long long)p->max, (long long)p->skips, p->counts->n_ints);
    p->n_items = p->ints ? p->ints->n_ints : p->strings->n_strings;
    int64_t before = 0;
    for (size_t i = 0; i < p->counts->n_ints; i++) {
        const int64_t at = p->counts->ints[i],
                      end = i + 1 < p->counts->n_ints ? p->counts->ints[i + 1] : (int64_t)p->n_items;
        if (at < before || at > end || (uint64_t)end > p->n_items || (end - at) % (int64_t)(i + 1) != 0)
            return onnx_fail(n, E0203, "'ngram_counts' does not fit a pool of %zu items", p->n_items);
        before = at;
    }
    return true;
}

// The items of a line as i64: strings by their last place in the pool, -1 for those that are not in it.
static NodeId read_line(OnnxNode *n, Pool *p)
{
    Arena *a = n->model->arena;
    const int64_t count = (int64_t)p->n_items;
    if (p->ints) {
        p->items = onnx_const(n, DTYPE_i64, &(Shape){.rank = 1, .dim = {count}},
                              count ? arena_copy(a, p->ints->ints, p->n_items * sizeof(int64_t)) : NULL,
                              p->n_items * sizeof(int64_t));
        return onnx_cast(n, onnx_src(n, 0), DTYPE_i64);
    }
    Map known = {0};
    int64_t *place = ARENA_ARRAY(a, int64_t, p->n_items);
    for (size_t i = 0; i < p->n_items; i++) {
        const ProtobufCBinaryData *s = &p->strings->strings[i];
        map_put(a, &known, s->data, s->len, i); // the last one counts, as in onnx_text_find
    }
    for (size_t i = 0; i < p->n_items; i++) {
        uint64_t last = i;
        map_get(&known, p->strings->strings[i].data, p->strings->strings[i].len, &last);
        place[i] = (int64_t)last;
    }
    p->items =
        onnx_const(n, DTYPE_i64, &(Shape){.rank = 1, .dim = {count}}, place, p->n_items * sizeof *place);
    return onnx_cast(n, onnx_text_find(n, onnx_text_src(n, 0), p->strings->strings, p->n_items), DTYPE_i64);
}

// Item i + by of a line in place of item i; behind its end stands what is in no pool.
static NodeId items_from(OnnxNode *n, NodeId line, int64_t by, int64_t reach)
{
    if (reach == 0 || n->failed)
        return line;
    if (dim_is_const(onnx_shape(n, line)->dim[1]))
        return onnx_slice(n, line, 1, by, by == reach ? INT64_MAX : by - reach, 1);
    NodeBuild b = ONNX_BEGIN(
        n, OP_pad, line, onnx_reshape(n, onnx_ints_const(n, &(const int64_t){INT64_MIN}, 1), &(Shape){0}));
    node_ints(&b, A_pad_pads, (const int64_t[]){0, -by, 0, by}, 4);
    return onnx_end(n, &b);
}

// [lines, grams]: how often each of `grams` n-grams of `length` items, which begin at item `first` of the
// pool, stands in the lines with its items `step` apart.
static NodeId count_grams(OnnxNode *n, const Pool *p, NodeId line, int64_t first, int64_t grams,
                          int64_t length, int64_t step)
{
    const int64_t middle = 1, reach = (length - 1) * step;
    NodeId all = 0;
    for (int64_t k = 0; k < length && !n->failed; k++) {
        // Item k of every n-gram, and of every place of the line.
        const NodeId want = onnx_slice(n, p->items, 0, first + k, first + grams * length, length);
        const NodeId part = items_from(n, line, k * step, reach);
        const NodeId same = onnx_op2(n, OP_eq, onnx_unsqueeze(n, part, (const int64_t[]){2}, 1), want);
        all = all ? onnx_op2(n, OP_logical_and, all, same) : same;
    }
    const NodeId count = onnx_reduce(n, OP_reduce_sum, onnx_cast(n, all, DTYPE_f32), &middle, 1);
    return onnx_squeeze(n, count, &middle, 1);
}

// All n-grams of one length, with every skip.
static NodeId count_length(OnnxNode *n, const Pool *p, NodeId line, int64_t length)
{
    const int64_t first = p->counts->ints[length - 1];
    const int64_t end = (size_t)length < p->counts->n_ints ? p->counts->ints[length] : (int64_t)p->n_items;
    const int64_t grams = (end - first) / length;
    const Dim lines = onnx_shape(n, line)->dim[0];
    int64_t least = 0, width = 0; // at most
    dim_range(n->graph->dims, onnx_shape(n, line)->dim[1], &least, &width);
    NodeId sum = onnx_expand(n, onnx_scalar(n, DTYPE_f32, 0), (const Dim[]){lines, grams}, 2);
    if (length < p->min || length > p->max || grams == 0)
        return sum;
    const int64_t skips = length == 1 ? 0 : p->skips;
    for (int64_t s = 0; s <= skips && !n->failed && (length - 1) * (s + 1) < width; s++)
        sum = onnx_op2(n, OP_add, sum, count_grams(n, p, line, first, grams, length, s + 1));
    return sum;
}

// --- the result ---

// Column i of the result is that of the n-gram whose index is i, or zero.
static NodeId place_columns(OnnxNode *n, const Pool *p, NodeId counts, int64_t grams, int64_t *size)
{
    int64_t most = -1;
    for (size_t i = 0; i < p->indexes->n_ints; i++) {
        const int64_t v = p->indexes->ints[i];
        if (v < 0 || v >= ONNX_MAX_FOLD_INTS) {
            onnx_fail(n, E0203, "'ngram_indexes' has the entry %lld", (long long)v);
            return 0;
        }
        most = v > most ? v : most;
    }
    *size = most + 1;
    if ((size_t)grams > p->indexes->n_ints)
        onnx_fail(n, E0203, "%lld n-grams, but %zu indexes", (long long)grams, p->indexes->n_ints);
    if (n->failed || !onnx_spend(n, *size))
        return 0;
    int64_t *from = ARENA_ARRAY(n->model->arena, int64_t, *size);
    for (int64_t i = 0; i < *size; i++)
        from[i] = grams; // the zero behind all
    for (int64_t i = 0; i < grams; i++)
        from[p->indexes->ints[i]] = i;
    static const int64_t pads[] = {0, 0, 0, 1};
    const NodeId padded = onnx_op_ints(n, OP_pad, counts, A_pad_pads, pads, 4);
    const Shape s = {.rank = 1, .dim = {*size}};
    return onnx_gather(n, padded, onnx_const(n, DTYPE_i64, &s, from, (uint64_t)*size * sizeof *from), 1);
}

// By n-gram in the order of the pool, so by their indexes in the result.
static NodeId weights(OnnxNode *n, const Pool *p, int64_t size)
{
    const Onnx__AttributeProto *a = onnx_has_attr(n, "weights") ? onnx_attr(n, "weights") : NULL;
    float *w = ARENA_ARRAY(n->model->arena, float, size);
    for (int64_t i = 0; i < size; i++)
        w[i] = 1;
    for (size_t i = 0; a && i < a->n_floats && i < p->indexes->n_ints; i++)
        w[p->indexes->ints[i]] = a->floats[i];
    const Shape s = {.rank = 1, .dim = {size}};
    return onnx_const(n, DTYPE_f32, &s, w, (uint64_t)size * sizeof *w);
}

static NodeId apply_mode(OnnxNode *n, const Pool *p, NodeId counts, int64_t size)
{
    enum { TF, IDF, TFIDF };
    const uint32_t mode = ONNX_WORD(n, "mode", "TF", "IDF", "TFIDF");
    onnx_need_attr(n, "mode");
    if (mode == TF) {
        onnx_ignore_attr(n, "weights");
        return counts;
    }
    const NodeId w = n->failed ? 0 : weights(n, p, size);
    if (mode == TFIDF)
        return onnx_op2(n, OP_mul, counts, w);
    const NodeId is_there = onnx_op2(n, OP_gt, counts, onnx_scalar(n, DTYPE_f32, 0));
    return onnx_op3(n, OP_where, is_there, w, onnx_scalar(n, DTYPE_f32, 0));
}

void onnx_import_tfidf(OnnxNode *n)
{
    Pool p = {0};
    if (!read_pool(n, &p))
        return;
    NodeId line = read_line(n, &p), part[ONNX_MAX_LIST];
    const uint32_t rank = onnx_shape(n, line)->rank;
    if (!n->failed && rank != 1 && rank != 2)
        onnx_fail(n, E0204, "needs a line or a list of lines, found rank %u", rank);
    if (rank == 1)
        line = onnx_unsqueeze(n, line, (const int64_t[]){0}, 1);
    int64_t grams = 0, size = 0;
    for (uint32_t i = 0; i < p.counts->n_ints && !n->failed; i++) {
        part[i] = count_length(n, &p, line, i + 1);
        grams += n->failed ? 0 : onnx_const_dim(n, part[i], 1);
    }
    const NodeId counts = onnx_concat_many(n, part, (uint32_t)p.counts->n_ints, 1);
    const NodeId placed = place_columns(n, &p, counts, grams, &size);
    const NodeId out = apply_mode(n, &p, placed, size);
    onnx_out(n, 0, rank == 1 ? onnx_squeeze(n, out, (const int64_t[]){0}, 1) : out);
}
