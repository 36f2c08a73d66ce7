// SPDX-License-Identifier: Apache-2.0
// Einsum: operands are joined from left to right. A label that no later operand and not the result needs is
// summed as soon as it can be: inside one operand by a reduction, between two by a batched matrix product.
#include "compiler/import/onnx/onnx_import.h"

// Labels: 52 letters, then the axes of the ellipsis, aligned at the last.
enum { LETTERS = 52, MAX_LABELS = LETTERS + SHAPE_MAX_RANK, MAX_TERMS = 64 };

typedef struct Labels {
    uint32_t n;
    uint8_t at[SHAPE_MAX_RANK];
} Labels;

// An operand with a label for every axis.
typedef struct Term {
    NodeId x;
    Labels axes;
} Term;

// A term of the equation as it is written.
typedef struct Written {
    Labels before, after; // the letters before and after the ellipsis
    bool has_ellipsis;
} Written;

static bool has_label(const Labels *l, uint8_t label)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->at[i] == label)
            return true;
    return false;
}

static uint32_t place_of(const Labels *l, uint8_t label)
{
    uint32_t i = 0;
    while (i < l->n && l->at[i] != label)
        i++;
    return i;
}

static bool push_label(OnnxNode *n, Labels *l, uint8_t label)
{
    if (l->n == SHAPE_MAX_RANK)
        return onnx_fail(n, E0206, "more than %d axes", SHAPE_MAX_RANK);
    l->at[l->n++] = label;
    return true;
}

// --- the equation ---

// Reads one term up to ',', '-' or the end.
static bool read_term(OnnxNode *n, const char **text, Written *w)
{
    *w = (Written){0};
    for (; **text && **text != ',' && **text != '-'; (*text)++) {
        const char c = **text;
        Labels *to = w->has_ellipsis ? &w->after : &w->before;
        const bool is_lower = c >= 'a' && c <= 'z', is_upper = c >= 'A' && c <= 'Z';
        if (c == ' ')
            continue;
        if (c == '.' && !w->has_ellipsis && (*text)[1] == '.' && (*text)[2] == '.') {
            w->has_ellipsis = true;
            *text += 2;
        } else if (!is_lower && !is_upper) {
            return onnx_fail(n, E0203, "the equation has an unexpected '%c'", c);
        } else if (!push_label(n, to, (uint8_t)(is_upper ? c - 'A' : c - 'a' + 26))) {
            return false;
        }
    }
    return true;
}

// All labels of a term whose ellipsis stands for `hidden` axes.
static bool label_axes(OnnxNode *n, const Written *w, uint32_t hidden, Labels *out)
{
    rlx_assert(hidden <= SHAPE_MAX_RANK);
    *out = w->before;
    for (uint32_t i = 0; i < hidden; i++)
        if (!push_label(n, out, (uint8_t)(MAX_LABELS - hidden + i)))
            return false;
    for (uint32_t i = 0; i < w->after.n; i++)
        if (!push_label(n, out, w->after.at[i]))
            return false;
    return true;
}

static bool label_operand(OnnxNode *n, const Written *w, uint32_t operand, Term *out, uint32_t *hidden)
{
    out->x = onnx_src(n, operand);
    const uint32_t rank = onnx_shape(n, out->x)->rank, named = w->before.n + w->after.n;
    if (n->failed)
        return false;
    if (rank < named || (rank > named && !w->has_ellipsis))
        return onnx_fail(n, E0204, "input %u has %u axes, but the equation gives it %u", operand, rank,
                         named);
    if (rank - named > *hidden)
        *hidden = rank - named;
    return label_axes(n, w, rank - named, &out->axes);
}

// Without "->": the axes of the ellipsis, then the letters that occur once, in order.
static bool implied_result(OnnxNode *n, const Term *term, uint32_t hidden, Labels *out)
{
    uint32_t uses[LETTERS] = {0};
    const Written none = {.has_ellipsis = true};
    for (uint32_t i = 0; i < n->n_in; i++)
        for (uint32_t k = 0; k < term[i].axes.n; k++)
            if (term[i].axes.at[k] < LETTERS)
                uses[term[i].axes.at[k]]++;
    if (!label_axes(n, &none, hidden, out))
        return false;
    for (uint32_t i = 0; i < LETTERS; i++)
        if (uses[i] == 1 && !push_label(n, out, (uint8_t)i))
            return false;
    return true;
}

static bool check_result(OnnxNode *n, const Term *term, const Labels *result)
{
    for (uint32_t i = 0; i < result->n; i++) {
        bool is_known = false;
        for (uint32_t k = 0; k < n->n_in; k++)
            is_known = is_known || has_label(&term[k].axes, result->at[i]);
        if (!is_known || place_of(result, result->at[i]) != i)
            return onnx_fail(n, E0203, "the equation's result has a letter twice, or one that no input has");
    }
    return true;
}

static bool read_equation(OnnxNode *n, Term *term, Labels *result)
{
    const char *text = onnx_str(n, "equation", "");
    uint32_t hidden = 0;
    Written w;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!read_term(n, &text, &w) || !label_operand(n, &w, i, &term[i], &hidden))
            return false;
        if (i + 1 < n->n_in && *text++ != ',')
            return onnx_fail(n, E0203, "the equation has fewer terms than there are inputs");
    }
    if (*text == '\0')
        return implied_result(n, term, hidden, result);
    if (text[0] != '-' || text[1] != '>')
        return onnx_fail(n, E0203, "the equation has more terms than there are inputs");
    text += 2;
    if (!read_term(n, &text, &w) || *text != '\0')
        return onnx_fail(n, E0203, "the equation goes on after its result");
    return label_axes(n, &w, w.has_ellipsis ? hidden : 0, result) && check_result(n, term, result);
}

// --- one operand ---

// A label that stands twice: the diagonal of its two axes, which go to the end.
static void take_diagonals(OnnxNode *n, Term *t)
{
    for (uint32_t j = 1; j < t->axes.n && !n->failed; j++) {
        const uint32_t i = place_of(&t->axes, t->axes.at[j]);
        if (i == j)
            continue;
        const int64_t size = onnx_const_dim(n, t->x, i), other = onnx_const_dim(n, t->x, j);
        int64_t perm[SHAPE_MAX_RANK];
        Labels left = {0};
        Shape flat = {0};
        if (!n->failed && size != other)
            onnx_fail(n, E0204, "axes %u and %u share a letter, but have %lld and %lld elements", i, j,
                      (long long)size, (long long)other);
        for (uint32_t k = 0; k < t->axes.n; k++)
            if (k != i && k != j) {
                perm[left.n] = k;
                flat.dim[left.n] = onnx_shape(n, t->x)->dim[k];
                left.at[left.n++] = t->axes.at[k];
            }
        perm[left.n] = i;
        perm[left.n + 1] = j;
        flat.rank = left.n + 1;
        flat.dim[left.n] = size * other;
        left.at[left.n++] = t->axes.at[j];
        t->x = onnx_reshape(n, onnx_transpose(n, t->x, perm), &flat);
        t->x = onnx_slice(n, t->x, flat.rank - 1, 0, INT64_MAX, size + 1);
        t->axes = left;
        j = 0; // the places have changed
    }
}

static void sum_axis(OnnxNode *n, Term *t, uint32_t i)
{
    rlx_assert(i < t->axes.n);
    const int64_t axis = i;
    t->x = onnx_squeeze(n, onnx_reduce(n, OP_reduce_sum, t->x, &axis, 1), &axis, 1);
    for (t->axes.n--; i < t->axes.n; i++)
        t->axes.at[i] = t->axes.at[i + 1];
}

// Sums the axes whose labels are in neither list.
static void sum_unneeded(OnnxNode *n, Term *t, const bool *needed, const Labels *other)
{
    for (uint32_t i = t->axes.n; i-- > 0;)
        if (!needed[t->axes.at[i]] && !has_label(other, t->axes.at[i]))
            sum_axis(n, t, i);
}

// The axes in this order; labels that t lacks become axes of size 1.
static NodeId arranged(OnnxNode *n, const Term *t, const Labels *order)
{
    int64_t perm[SHAPE_MAX_RANK], added[SHAPE_MAX_RANK];
    uint32_t count = 0, n_added = 0;
    for (uint32_t i = 0; i < order->n; i++) {
        if (has_label(&t->axes, order->at[i]))
            perm[count++] = place_of(&t->axes, order->at[i]);
        else
            added[n_added++] = i;
    }
    rlx_assert(n->failed || count == t->axes.n);
    return n->failed ? 0 : onnx_unsqueeze(n, onnx_transpose(n, t->x, perm), added, n_added);
}

// --- two operands ---

static void multiply(OnnxNode *n, Term *a, const Term *b)
{
    Labels all = a->axes;
    for (uint32_t i = 0; i < b->axes.n; i++)
        if (!has_label(&all, b->axes.at[i]) && !push_label(n, &all, b->axes.at[i]))
            return;
    a->x = onnx_op2(n, OP_mul, arranged(n, a, &all), arranged(n, b, &all));
    a->axes = all;
}

static Dim size_of(const OnnxNode *n, const Term *t, uint8_t label)
{
    rlx_assert(has_label(&t->axes, label));
    return onnx_shape(n, t->x)->dim[place_of(&t->axes, label)];
}

static Dim product(OnnxNode *n, const Term *t, const Labels *labels)
{
    Dim d = 1;
    for (uint32_t i = 0; i < labels->n; i++)
        d = dim_mul(n->graph->dims, d, size_of(n, t, labels->at[i]));
    return d;
}

static void append(Labels *to, const Labels *from)
{
    for (uint32_t i = 0; i < from->n && to->n < SHAPE_MAX_RANK; i++)
        to->at[to->n++] = from->at[i];
}

// [batch ..., rows, columns]
static NodeId as_matrices(OnnxNode *n, const Term *t, const Labels *batch, const Labels *rows,
                          const Labels *columns)
{
    rlx_assert(batch->n + 2 <= SHAPE_MAX_RANK);
    Labels order = *batch;
    Shape s = {.rank = batch->n + 2};
    append(&order, rows);
    append(&order, columns);
    for (uint32_t i = 0; i < batch->n; i++)
        s.dim[i] = size_of(n, t, batch->at[i]);
    s.dim[batch->n] = product(n, t, rows);
    s.dim[batch->n + 1] = product(n, t, columns);
    return onnx_reshape(n, arranged(n, t, &order), &s);
}

// Sums over the labels `inner`, which both have.
static void contract(OnnxNode *n, Term *a, const Term *b, const Labels *inner)
{
    rlx_assert(inner->n != 0);
    Labels batch = {0}, left = {0}, right = {0}, all;
    Shape s = {0};
    for (uint32_t i = 0; i < a->axes.n; i++)
        if (!has_label(inner, a->axes.at[i]))
            push_label(n, has_label(&b->axes, a->axes.at[i]) ? &batch : &left, a->axes.at[i]);
    for (uint32_t i = 0; i < b->axes.n; i++)
        if (!has_label(inner, b->axes.at[i]) && !has_label(&a->axes, b->axes.at[i]))
            push_label(n, &right, b->axes.at[i]);
    if (batch.n + left.n + right.n > SHAPE_MAX_RANK || batch.n + 2 > SHAPE_MAX_RANK)
        onnx_fail(n, E0206, "an intermediate result has more than %d axes", SHAPE_MAX_RANK);
    if (n->failed)
        return;
    const NodeId x = as_matrices(n, a, &batch, &left, inner), y = as_matrices(n, b, &batch, inner, &right);
    const NodeId xy = onnx_matmul(n, x, y, false, false);
    for (uint32_t i = 0; i < batch.n && !n->failed; i++)
        s.dim[s.rank++] = onnx_shape(n, xy)->dim[i];
    for (uint32_t i = 0; i < left.n; i++)
        s.dim[s.rank++] = size_of(n, a, left.at[i]);
    for (uint32_t i = 0; i < right.n; i++)
        s.dim[s.rank++] = size_of(n, b, right.at[i]);
    all = batch;
    append(&all, &left);
    append(&all, &right);
    *a = (Term){onnx_reshape(n, xy, &s), all};
}

static void join(OnnxNode *n, Term *a, Term *b, const bool *needed)
{
    Labels inner = {0};
    sum_unneeded(n, a, needed, &b->axes);
    sum_unneeded(n, b, needed, &a->axes);
    for (uint32_t i = a->axes.n; i-- > 0 && !n->failed;) {
        const uint8_t label = a->axes.at[i];
        if (needed[label] || !has_label(&b->axes, label))
            continue;
        if (size_of(n, a, label) == size_of(n, b, label)) {
            push_label(n, &inner, label);
        } else { // one of them is 1 and broadcasts: a sum of products with one number
            sum_axis(n, a, i);
            sum_axis(n, b, place_of(&b->axes, label));
        }
    }
    if (inner.n && !n->failed)
        contract(n, a, b, &inner);
    else if (!n->failed)
        multiply(n, a, b);
}

// Sizes of one label agree, or are 1.
static void check_sizes(OnnxNode *n, const Term *term)
{
    Dim size[MAX_LABELS];
    for (uint32_t i = 0; i < MAX_LABELS; i++)
        size[i] = 1;
    for (uint32_t i = 0; i < n->n_in; i++)
        for (uint32_t k = 0; k < term[i].axes.n && !n->failed; k++) {
            const Dim d = onnx_shape(n, term[i].x)->dim[k];
            Dim *have = &size[term[i].axes.at[k]];
            if (*have != d && *have != 1 && d != 1)
                onnx_fail(n, E0204, "axis %u of input %u has another size than other axes of that letter", k,
                          i);
            *have = *have == 1 ? d : *have;
        }
}

void onnx_import_einsum(OnnxNode *n)
{
    Term term[MAX_TERMS];
    Labels result;
    if (n->n_in < 1 || n->n_in > MAX_TERMS)
        onnx_fail(n, E0202, "needs 1 to %d inputs, found %u", MAX_TERMS, n->n_in);
    if (n->failed || !read_equation(n, term, &result))
        return;
    check_sizes(n, term);
    for (uint32_t i = 0; i < n->n_in; i++)
        take_diagonals(n, &term[i]);
    for (uint32_t i = 1; i < n->n_in && !n->failed; i++) {
        bool needed[MAX_LABELS] = {false};
        for (uint32_t k = 0; k < result.n; k++)
            needed[result.at[k]] = true;
        for (uint32_t later = i + 1; later < n->n_in; later++)
            for (uint32_t k = 0; k < term[later].axes.n; k++)
                needed[term[later].axes.at[k]] = true;
        join(n, &term[0], &term[i], needed);
    }
    const bool none[MAX_LABELS] = {false};
    sum_unneeded(n, &term[0], none, &result);
    onnx_out(n, 0, arranged(n, &term[0], &result));
}
