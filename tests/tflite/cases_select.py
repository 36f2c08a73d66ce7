# SPDX-License-Identifier: Apache-2.0
"""Cases of operators that choose among boxes, put elements at places of an operand, and of volumes."""

import math

from case import FLOAT, case, i8, i32
from flatbuffer import flex_map

# --- boxes ---


def detector(c, boxes, columns, *, q=None, anchors_are_inputs=False, numbers=4, **options):
    q = q or [{}, {}, {}]
    t = ["u8" if p else "f32" for p in q]
    given = {
        "max_detections": 5,
        "max_classes_per_detection": 1,
        "detections_per_class": 4,
        "num_classes": columns - 1,
        "nms_score_threshold": 0.3,
        "nms_iou_threshold": 0.5,
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
    } | options
    codes = c.x(t[0], [1, boxes, numbers], **q[0])
    scores = c.x(t[1], [1, boxes, columns], **({"low": 0, "high": 1} if t[1] == "f32" else {}), **q[1])
    side = range(boxes)
    places = [v for i in side for v in (0.1 * (i % 4), 0.15 * (i % 5), 0.3 + 0.02 * (i % 3), 0.4)]
    if anchors_are_inputs:
        anchors = c.x("f32", [boxes, 4], values=places)
    elif q[2]:
        anchors = c.c("u8", [boxes, 4], [round(v / q[2]["scale"]) + q[2]["zero"] for v in places], **q[2])
    else:
        anchors = c.c("f32", [boxes, 4], places)
    all_ = given["max_detections"] * given["max_classes_per_detection"]
    results = [c.y("f32", shape) for shape in ([1, all_, 4], [1, all_], [1, all_], [1])]
    c.op("TFLite_Detection_PostProcess", [codes, scores, anchors], results, options=flex_map(given))


case("detection_f32", 4e-6)(lambda c: detector(c, 24, 4, use_regular_nms=0))
case("detection_by_class_f32", 4e-6)(lambda c: detector(c, 24, 4, use_regular_nms=1))
case("detection_all_classes_f32", 4e-6)(lambda c: detector(c, 17, 3, use_regular_nms=1, num_classes=3))
case("detection_keypoints_f32", 4e-6)(
    lambda c: detector(
        c, 16, 2, numbers=8, anchors_are_inputs=True, max_detections=9, nms_score_threshold=0.0
    )
)
case("detection_few_f32", 4e-6)(
    lambda c: detector(c, 20, 5, use_regular_nms=1, nms_score_threshold=0.93, max_detections=12)
)
# Each box is a detection for several classes: two of three, and five though there are only three.
for most in (2, 5):
    case(f"detection_{most}_classes_a_box_f32", 4e-6)(
        lambda c, most=most: detector(c, 24, 4, use_regular_nms=0, max_classes_per_detection=most)
    )
CODES = [{"scale": 0.03, "zero": 120}, {"scale": 1 / 256, "zero": 0}, {"scale": 0.01, "zero": 10}]
case("detection_u8", 4e-6)(lambda c: detector(c, 24, 4, q=CODES, use_regular_nms=0))
case("detection_by_class_u8", 4e-6)(lambda c: detector(c, 24, 4, q=CODES, use_regular_nms=1))

NMS = (("", 4, 0.5, 0.1), ("_all", 12, 0.3, 0.0), ("_none", 3, 0.5, 0.99), ("_no_overlap", 5, 0.0, 0.1))
for name, most, iou, score in NMS:
    for version in (4, 5):

        @case(f"nms_v{version}{name}_f32", FLOAT)
        def _(c, version=version, most=most, iou=iou, score=score):
            places = [v for i in range(9) for v in (i % 3, i % 4, i % 3 + 2, i % 4 + 1 + i % 2)]
            boxes = c.c("f32", [9, 4], places)
            limits = [c.c("f32", [], [v]) for v in ([iou, score, 0.0] if version == 5 else [iou, score])]
            results = c.y("i32", [most])
            scores = c.x("f32", [9], values=[0.5, 0.25, 0.75, 0.625, 0.0625, 0.875, 0.375, 0.1, 0.3])
            scores_of = [c.y("f32", [most])] if version == 5 else []
            results = [results, *scores_of, c.y("i32", [])]
            c.op(116 + version, [boxes, scores, c.c("i32", [], [most]), *limits], results, 91 + version)


# --- places that an operand says ---

UNSORTED = (("prod", 153, 118), ("max", 154, 119), ("sum", 155, 121), ("min", 157, 120))

for t in ("f32", "i32"):

    @case("segment_sum_" + t, FLOAT)
    def _(c, t=t):
        ids = c.c("i32", [5], [0, 0, 1, 2, 2])
        c.op(125, [c.x(t, [5, 3]), ids], [c.y(t, [3, 3])], 100)

    @case("segment_sum_of_many_" + t, FLOAT)
    def _(c, t=t):
        ids = c.c("i32", [100], [i // 7 for i in range(100)])
        c.op(125, [c.x(t, [100, 3]), ids], [c.y(t, [15, 3])], 100)

    for kind, number, options in UNSORTED:

        @case(f"unsorted_segment_{kind}_{t}", FLOAT)
        def _(c, t=t, number=number, options=options):
            ids = c.x("i32", [6], values=[3, 0, -1, 0, 3, 1])
            x = c.x(t, [6, 2], low=-9, high=9)
            c.op(number, [x, ids, c.c("i32", [], [5])], [c.y(t, [5, 2])], options)

    @case("sparse_to_dense_" + t)
    def _(c, t=t):
        places, rest = c.c("i32", [3, 2], [0, 1, 2, 0, 2, 3]), c.c(t, [], [-7])
        c.op(68, [places, c.c("i32", [2], [3, 4]), c.x(t, [3]), rest], [c.y(t, [3, 4])], 50)

    @case("sparse_to_dense_one_value_" + t)
    def _(c, t=t):
        places, rest = c.x("i32", [3], values=[5, 0, 3]), c.c(t, [], [1])
        c.op(68, [places, c.c("i32", [1], [6]), c.x(t, []), rest], [c.y(t, [6])], 50)

    for rows, columns in ((3, 5), (5, 3), (4, 4)):

        @case(f"matrix_set_diag_{rows}x{columns}_{t}")
        def _(c, t=t, rows=rows, columns=columns):
            d = c.x(t, [2, min(rows, columns)])
            c.op(115, [c.x(t, [2, rows, columns]), d], [c.y(t, [2, rows, columns])], 90)

    @case("matrix_diag_" + t)
    def _(c, t=t):
        c.op(113, [c.x(t, [2, 3])], [c.y(t, [2, 3, 3])], 88)

    @case("bucketize_" + t)
    def _(c, t=t):
        bounds = ("list", "f32", [-1.5, 0.0, 0.25, 1.0])
        c.op(147, [c.x(t, [3, 7], low=-2, high=2)], [c.y("i32", [3, 7])], 115, {0: bounds})

    @case("bucketize_far_" + t)
    def _(c, t=t):
        special = {"f32": [math.nan, -math.inf, math.inf, 0.0], "i32": [-(2**31), 2**31 - 64, 2**31 - 1, 0]}
        bounds = ("list", "f32", [-3e9, 0.5, 2.0**31, 1e20])
        c.op(147, [c.x(t, [4], values=special[t])], [c.y("i32", [4])], 115, {0: bounds})

    for time, batch, shape in ((1, 0, [3, 5, 2]), (0, 2, [5, 2, 3]), (2, 1, [2, 3, 4]), (3, 0, [3, 2, 2, 5])):

        @case(f"reverse_sequence_{time}_{batch}_{t}")
        def _(c, t=t, time=time, batch=batch, shape=shape):
            most = shape[time]
            sizes = c.x("i32", [shape[batch]], values=[most, 1, 2, 0][: shape[batch]])
            options = {0: i32(time), 1: i32(batch)}
            c.op(112, [c.x(t, shape), sizes], [c.y(t, shape)], 87, options)


# --- volumes ---

for name, padding, stride, dilation, bias in (
    ("same", 0, 1, 1, True),
    ("valid", 1, 1, 2, False),
    ("stride", 0, 2, 1, True),
):

    @case(f"conv_3d_{name}_f32", 4e-6)
    def _(c, padding=padding, stride=stride, dilation=dilation, bias=bias):
        size = [-(-n // stride) if padding == 0 else n - 2 * dilation for n in (5, 6, 7)]
        operands = [c.x("f32", [2, 5, 6, 7, 4]), c.c("f32", [3, 3, 3, 4, 3])]
        operands += [c.c("f32", [3])] if bias else []
        options = {0: i8(padding), 1: i32(stride), 2: i32(stride), 3: i32(stride), 4: i8(1)}
        options |= {5: i32(dilation), 6: i32(dilation), 7: i32(dilation)}
        c.op(132, operands, [c.y("f32", [2, *size, 3])], 106, options)


for name, padding, sizes in (("same", 0, (6, 8, 10)), ("valid", 1, (7, 9, 11))):

    @case(f"conv_3d_transpose_{name}_f32", 4e-6)
    def _(c, padding=padding, sizes=sizes):
        shape = [1, *sizes, 2]
        operands = [c.c("i32", [5], shape), c.c("f32", [3, 3, 3, 2, 4]), c.x("f32", [1, 3, 4, 5, 4])]
        options = {0: i8(padding), 1: i32(2), 2: i32(2), 3: i32(2), 4: i8(0)}
        c.op(141, [*operands, c.c("f32", [2])], [c.y("f32", shape)], 106, options)
