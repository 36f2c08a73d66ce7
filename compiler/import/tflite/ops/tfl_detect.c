// SPDX-License-Identifier: Apache-2.0
// Operators that choose among boxes: NON_MAX_SUPPRESSION_V4 and V5, and the custom operator
// TFLite_Detection_PostProcess at the end of detectors (SSD, EfficientDet).
#include "compiler/import/tflite/tfl_import.h"

#include <math.h>

enum { MOST_BOXES = 1 << 20 };

// Boxes [B, N, 4] and scores [B, C, N]: at most `most` boxes of each class, the best first.
typedef struct Suppress {
    NodeId boxes, scores;
    int64_t most, rows; // rows: of the result
    float iou, score;   // boxes with that score are taken
} Suppress;

// [rows, 3]: batch, class and box of each; *count: how many of the rows there are.
static NodeId suppress(TflNode *n, const Suppress *s, NodeId *count)
{
    *count = 0;
    if (n->failed)
        return 0;
    rlx_assert(s->most >= 0 && s->rows >= 0 && s->rows <= tfl_size(n, s->scores, 1) * s->most);
    NodeBuild b = tfl_begin(n, OP_nms);
    node_src(&b, s->boxes);
    node_src(&b, s->scores);
    node_src(&b, tfl_number(n, DTYPE_i64, (double)s->most));
    node_src(&b, tfl_number(n, DTYPE_f32, (double)s->iou));
    node_src(&b, tfl_number(n, DTYPE_f32, (double)nextafterf(s->score, -INFINITY))); // the op wants more
    node_ints(&b, A_nms_size, &s->rows, 1);
    const NodeId chosen = tfl_end(n, &b);
    *count = tfl_result(n, chosen, 1);
    return chosen;
}

static NodeId column(TflNode *n, NodeId chosen, int64_t i)
{
    return tfl_reshape(n, tfl_slice(n, chosen, 1, i, i + 1, 1), (const Dim[]){-1}, 1);
}

// The first `count` of the rows of x, a value of the run, and zeros after them.
static NodeId live_rows(TflNode *n, NodeId x, int64_t rows, NodeId count)
{
    const NodeId is_live = tfl_op2(n, OP_lt, tfl_counted(n, rows), count);
    const NodeId mask = tfl_rank(n, x) == 1 ? is_live : tfl_reshape(n, is_live, (const Dim[]){rows, 1}, 2);
    return tfl_op3(n, OP_where, mask, x, tfl_number(n, tfl_type(n, x), 0));
}

// Zeros behind what x has along an axis, up to `wanted` elements.
static NodeId filled(TflNode *n, NodeId x, uint32_t axis, int64_t wanted)
{
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    const int64_t have = tfl_size(n, x, axis);
    rlx_assert(n->failed || have <= wanted);
    pads[tfl_rank(n, x) + axis] = wanted - have;
    return n->failed || wanted == have ? x
                                       : tfl_pad(n, x, pads, "constant", tfl_number(n, tfl_type(n, x), 0));
}

// --- NON_MAX_SUPPRESSION ---

// The numbers of the kept boxes and, with `has_scores`, their scores; then how many there are.
static void suppress_one_class(TflNode *n, bool has_scores)
{
    Suppress s = {.boxes = tfl_src(n, 0), .scores = tfl_src(n, 1), .most = tfl_src_int(n, 2)};
    double limit[3] = {0};
    for (uint32_t i = 3; i < (has_scores ? 6 : 5); i++)
        if (!node_is_scalar_const(n->graph, tfl_src(n, i), &limit[i - 3]) && !n->failed)
            tfl_fail(n, E0206, "operand %u must be known when the model is compiled", i);
    const int64_t boxes = tfl_size(n, s.boxes, 0);
    const NodeId scores = s.scores;
    if (!n->failed && (s.most < 0 || s.most > MOST_BOXES))
        tfl_fail(n, E0203, "a size of %lld", (long long)s.most);
    if (!n->failed && limit[2] > 0)
        tfl_fail(n, E0206, "a sigma (of soft suppression) of %g is not supported", limit[2]);
    if (n->failed)
        return;
    const int64_t size = s.most;
    if (limit[0] <= 0 && s.most > 1)
        s.most = 1; // all boxes have that much in common
    const float below = nextafterf((float)limit[0], -INFINITY); // the op keeps a box with that much in common
    s.iou = below < 0 ? 0 : below < 1 ? below : 1;
    s.score = nextafterf((float)limit[1], INFINITY);
    s.rows = s.most < boxes ? s.most : boxes;
    s.boxes = tfl_reshape(n, s.boxes, (const Dim[]){1, boxes, 4}, 3);
    s.scores = tfl_reshape(n, s.scores, (const Dim[]){1, 1, boxes}, 3);
    NodeId count = 0;
    const NodeId box = column(n, suppress(n, &s, &count), 2);
    tfl_out(n, 0, tfl_cast(n, filled(n, live_rows(n, box, s.rows, count), 0, size), DTYPE_i32));
    if (has_scores)
        tfl_out(n, 1, filled(n, live_rows(n, tfl_gather(n, scores, box, 0), s.rows, count), 0, size));
    tfl_out(n, has_scores ? 2 : 1, tfl_cast(n, count, DTYPE_i32));
}

void tfl_import_nms_v4(TflNode *n)
{
    suppress_one_class(n, false);
}

void tfl_import_nms_v5(TflNode *n)
{
    suppress_one_class(n, true);
}

// --- TFLite_Detection_PostProcess ---

typedef struct Detection {
    int64_t most, per_box, per_class, classes, boxes;
    float iou, score, scale[4];
    bool is_by_class;
    NodeId decoded, scores; // [N, 4], [N, classes]
} Detection;

static double number(TflNode *n, const char *name, double dflt)
{
    double v = dflt;
    return tfl_custom_number(n, name, &v) ? v : dflt;
}

static int64_t whole(TflNode *n, const char *name, double dflt)
{
    const double v = number(n, name, dflt);
    if (!n->failed && !(v >= 1 && v <= MOST_BOXES))
        tfl_fail(n, E0203, "option '%s' is %g, not a number from 1 to %d", name, v, MOST_BOXES);
    return n->failed ? 1 : (int64_t)v;
}

static bool read_options(TflNode *n, Detection *d)
{
    static const char *const scale[] = {"y_scale", "x_scale", "h_scale", "w_scale"};
    d->is_by_class = number(n, "use_regular_nms", 0) > 0;
    d->most = whole(n, "max_detections", 0);
    d->per_box = whole(n, "max_classes_per_detection", d->is_by_class);
    d->per_class = whole(n, "detections_per_class", 100);
    d->classes = whole(n, "num_classes", 0);
    d->score = (float)number(n, "nms_score_threshold", 0);
    d->iou = (float)number(n, "nms_iou_threshold", 0);
    for (uint32_t i = 0; i < 4 && !n->failed; i++) {
        d->scale[i] = (float)number(n, scale[i], 0);
        if (!(d->scale[i] > 0))
            tfl_fail(n, E0203, "option '%s' is %g, not a number above 0", scale[i], (double)d->scale[i]);
    }
    return !n->failed;
}

static NodeId real(TflNode *n, uint32_t i)
{
    const NodeId x = tfl_src(n, i);
    return n->failed || !tfl_is_quantised(tfl_in(n, i)) ? x : tfl_dequantise(n, x, tfl_in(n, i));
}

static bool read_operands(TflNode *n, Detection *d, NodeId *codes, NodeId *anchors)
{
    const NodeId scores = real(n, 1);
    *codes = real(n, 0);
    *anchors = real(n, 2);
    if (n->failed)
        return false;
    if (tfl_rank(n, *codes) != 3 || tfl_rank(n, scores) != 3 || tfl_rank(n, *anchors) != 2)
        return tfl_fail(n, E0204, "expected boxes [1, n, 4], scores [1, n, classes] and anchors [n, 4]");
    d->boxes = tfl_size(n, *codes, 1);
    const int64_t columns = tfl_size(n, scores, 2), numbers = tfl_size(n, *codes, 2);
    if (n->failed)
        return false;
    if (tfl_size(n, *codes, 0) != 1 || tfl_size(n, scores, 0) != 1 || tfl_size(n, scores, 1) != d->boxes ||
        tfl_size(n, *anchors, 0) != d->boxes || tfl_size(n, *anchors, 1) != 4 || numbers < 4 || d->boxes < 1)
        return tfl_fail(n, E0204,
                        "boxes, scores and anchors do not belong together, or there are several images");
    if (columns != d->classes && columns != d->classes + 1)
        return tfl_fail(n, E0204, "%lld scores of each box for %lld classes", (long long)columns,
                        (long long)d->classes);
    const NodeId rows = tfl_reshape(n, scores, (const Dim[]){d->boxes, columns}, 2);
    d->scores = columns == d->classes ? rows : tfl_slice(n, rows, 1, 1, columns, 1); // 0: the background
    *codes = tfl_slice(n, tfl_reshape(n, *codes, (const Dim[]){d->boxes, numbers}, 2), 1, 0, 4, 1);
    return !n->failed;
}

// Boxes are given by the place of their centre and the logarithm of their size, both relative to anchors [y,
// x, h, w], and become [top, left, bottom, right].
static NodeId decode(TflNode *n, const Detection *d, NodeId codes, NodeId anchors)
{
    float *scale = ARENA_ARRAY(n->model->arena, float, 4);
    for (uint32_t i = 0; i < 4; i++)
        scale[i] = d->scale[i];
    const Shape four = {.rank = 1, .dim = {4}};
    const NodeId v = tfl_op2(n, OP_div, codes, tfl_const(n, DTYPE_f32, &four, scale));
    const NodeId size = tfl_slice(n, anchors, 1, 2, 4, 1);
    const NodeId at = tfl_op2(n, OP_mul, tfl_slice(n, v, 1, 0, 2, 1), size);
    const NodeId centre = tfl_op2(n, OP_add, at, tfl_slice(n, anchors, 1, 0, 2, 1));
    const NodeId side = tfl_op2(n, OP_mul, tfl_op1(n, OP_exp, tfl_slice(n, v, 1, 2, 4, 1)), size);
    const NodeId half = tfl_op_number(n, OP_mul, side, 0.5);
    const NodeId ends[] = {tfl_op2(n, OP_sub, centre, half), tfl_op2(n, OP_add, centre, half)};
    return tfl_concat(n, ends, 2, 1);
}

static NodeId best(TflNode *n, NodeId x, int64_t axis, int64_t k)
{
    if (n->failed)
        return 0;
    rlx_assert(k >= 0 && k <= tfl_size(n, x, (uint32_t)axis));
    NodeBuild b = tfl_begin(n, OP_top_k);
    node_src(&b, x);
    node_ints(&b, A_top_k_k, &k, 1);
    node_int(&b, A_top_k_axis, axis);
    return tfl_end(n, &b);
}

// boxes [rows, 4], classes and scores [rows], of which `live` are there, as the operator's results; count:
// the number of boxes.
static void put_detections(TflNode *n, const Detection *d, const NodeId *list, int64_t rows, NodeId live,
                           NodeId count)
{
    const int64_t all = d->most * d->per_box;
    for (uint32_t i = 0; i < 3; i++) {
        const NodeId x = filled(n, live_rows(n, tfl_cast(n, list[i], DTYPE_f32), rows, live), 0, all);
        tfl_out(n, i, tfl_reshape(n, x, (const Dim[]){1, all, 4}, i == 0 ? 3 : 2));
    }
    tfl_out(n, 3, tfl_reshape(n, tfl_cast(n, count, DTYPE_f32), (const Dim[]){1}, 1));
}

// All classes at once: boxes compete by their best score, and each that is left has a row for each of its
// best classes, with zeros where it asks for more classes than there are.
static void detect_boxes(TflNode *n, const Detection *d)
{
    const int64_t kept = d->most < d->boxes ? d->most : d->boxes;
    const int64_t each = d->per_box < d->classes ? d->per_box : d->classes, one = 1;
    const NodeId top = best(n, d->scores, 1, each);
    const Suppress s = {.boxes = tfl_reshape(n, d->decoded, (const Dim[]){1, d->boxes, 4}, 3),
                        .scores = tfl_reshape(n, tfl_slice(n, top, 1, 0, 1, 1), (const Dim[]){1, 1, -1}, 3),
                        .most = d->most,
                        .rows = kept,
                        .iou = d->iou,
                        .score = d->score};
    NodeId count = 0;
    const NodeId box = column(n, suppress(n, &s, &count), 2);
    const NodeId boxes = tfl_reshape(n, tfl_gather(n, d->decoded, box, 0), (const Dim[]){kept, one, 4}, 3);
    NodeId list[] = {tfl_expand(n, boxes, (const Dim[]){kept, each, 4}, 3),
                     tfl_gather(n, tfl_result(n, top, 1), box, 0), tfl_gather(n, top, box, 0)};
    for (uint32_t i = 0; i < 3; i++)
        list[i] = tfl_reshape(n, filled(n, list[i], 1, d->per_box), (const Dim[]){-1, 4}, i == 0 ? 2 : 1);
    const NodeId live = tfl_op_number(n, OP_mul, count, (double)d->per_box);
    put_detections(n, d, list, kept * d->per_box, live, count);
}

// Each class by itself, then the best of all.
static void detect_by_class(TflNode *n, const Detection *d)
{
    static const int64_t swapped[] = {1, 0};
    const int64_t of_class = d->per_class < d->boxes ? d->per_class : d->boxes;
    const NodeId by_class = tfl_transpose(n, d->scores, swapped);
    const Suppress s = {.boxes = tfl_reshape(n, d->decoded, (const Dim[]){1, d->boxes, 4}, 3),
                        .scores = tfl_reshape(n, by_class, (const Dim[]){1, d->classes, d->boxes}, 3),
                        .most = d->per_class,
                        .rows = d->classes * of_class,
                        .iou = d->iou,
                        .score = d->score};
    const int64_t kept = d->most < s.rows ? d->most : s.rows;
    NodeId count = 0;
    const NodeId chosen = suppress(n, &s, &count);
    const NodeId class_of = column(n, chosen, 1), box = column(n, chosen, 2);
    const NodeId flat = tfl_op2(n, OP_add, tfl_op_number(n, OP_mul, class_of, (double)d->boxes), box);
    const NodeId score = tfl_gather(n, tfl_reshape(n, by_class, (const Dim[]){-1}, 1), flat, 0);
    const NodeId is_live = tfl_op2(n, OP_lt, tfl_counted(n, s.rows), count);
    const NodeId least = tfl_number(n, DTYPE_f32, -INFINITY);
    const NodeId top = best(n, tfl_op3(n, OP_where, is_live, score, least), 0, kept);
    const NodeId places = tfl_result(n, top, 1);
    const NodeId list[] = {tfl_gather(n, d->decoded, tfl_gather(n, box, places, 0), 0),
                           tfl_gather(n, class_of, places, 0), top};
    const NodeId live = tfl_op2(n, OP_min, count, tfl_number(n, DTYPE_i64, (double)kept));
    put_detections(n, d, list, kept, live, live);
}

void tfl_import_detection(TflNode *n)
{
    Detection d = {0};
    NodeId codes = 0, anchors = 0;
    if (!read_options(n, &d) || !read_operands(n, &d, &codes, &anchors))
        return;
    d.decoded = decode(n, &d, codes, anchors);
    if (d.is_by_class)
        detect_by_class(n, &d);
    else
        detect_boxes(n, &d);
}
