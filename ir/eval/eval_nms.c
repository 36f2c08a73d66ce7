// SPDX-License-Identifier: Apache-2.0
// Meaning of nms: per batch and class, the best box that is left is taken unless it overlaps one that was
// taken before.
#include "ir/eval/eval_ops.h"

typedef struct Nms {
    const double *boxes, *scores; // of a batch; of a class
    int64_t n;
    bool is_center, has_score;
    double iou, score;
} Nms;

// An edge of a box: the lower and upper end on axis 0 (x) or 1 (y).
static void edge(const Nms *s, int64_t box, int axis, double *low, double *high)
{
    const double *b = s->boxes + 4 * box;
    if (s->is_center) {
        *low = b[axis] - b[2 + axis] / 2;
        *high = b[axis] + b[2 + axis] / 2;
        return;
    }
    const double p = b[1 - axis], q = b[3 - axis];
    *low = p < q ? p : q;
    *high = p < q ? q : p;
}

static bool overlaps(const Nms *s, int64_t a, int64_t b)
{
    double area_a = 1, area_b = 1, common = 1;
    for (int axis = 0; axis < 2; axis++) {
        double a0, a1, b0, b1;
        edge(s, a, axis, &a0, &a1);
        edge(s, b, axis, &b0, &b1);
        const double low = a0 > b0 ? a0 : b0, high = a1 < b1 ? a1 : b1;
        if (!(high > low))
            return false;
        common *= high - low;
        area_a *= a1 - a0;
        area_b *= b1 - b0;
    }
    return area_a > 0 && area_b > 0 && common / (area_a + area_b - common) > s->iou;
}

static int64_t best_left(const Nms *s, const bool *is_done)
{
    int64_t best = -1;
    for (int64_t i = 0; i < s->n; i++) {
        const double v = s->scores[i];
        if (!is_done[i] && v == v && !(s->has_score && !(v > s->score)) && (best < 0 || v > s->scores[best]))
            best = i;
    }
    return best;
}

// Takes boxes of one class into list; returns how many.
static int64_t select_boxes(const Nms *s, int64_t most, bool *is_done, int64_t *list)
{
    int64_t n = 0, box = 0;
    for (int64_t i = 0; i < s->n; i++)
        is_done[i] = false;
    while (n < most && (box = best_left(s, is_done)) >= 0) {
        bool is_free = true;
        for (int64_t i = 0; i < n; i++)
            is_free = is_free && !overlaps(s, box, list[i]);
        is_done[box] = true;
        if (is_free)
            list[n++] = box;
    }
    return n;
}

bool eval_nms(EvalCtx *c)
{
    const Tensor *boxes = &c->in[0], *scores = &c->in[1];
    Tensor *out = &c->out[0];
    const int64_t n = boxes->dim[1], classes = scores->dim[1];
    const double *all_boxes = eval_doubles(c, 0), *all_scores = eval_doubles(c, 1);
    bool *is_done = ARENA_ARRAY(c->scratch, bool, n + 1);
    int64_t *list = ARENA_ARRAY(c->scratch, int64_t, n + 1), count = 0;
    Nms s = {.n = n,
             .is_center = eval_flag(c, A_nms_center_point_box),
             .has_score = eval_has(c, 4),
             .iou = tensor_get_f64(&c->in[3], 0)};
    s.score = s.has_score ? tensor_get_f64(&c->in[4], 0) : 0;
    if (!eval_check_work(c, boxes->dim[0] * classes, n) ||
        !eval_check_work(c, boxes->dim[0] * classes * n, n + 1))
        return false;
    for (int64_t b = 0; b < boxes->dim[0]; b++)
        for (int64_t k = 0; k < classes; k++) {
            s.boxes = all_boxes + b * n * 4;
            s.scores = all_scores + (b * classes + k) * n;
            const int64_t taken = select_boxes(&s, tensor_get_i64(&c->in[2], 0), is_done, list);
            for (int64_t i = 0; i < taken && count < out->dim[0]; i++, count++) {
                tensor_set_i64(out, count * 3, b);
                tensor_set_i64(out, count * 3 + 1, k);
                tensor_set_i64(out, count * 3 + 2, list[i]);
            }
        }
    tensor_set_i64(&c->out[1], 0, count);
    return true;
}
