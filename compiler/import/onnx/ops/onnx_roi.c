// SPDX-License-Identifier: Apache-2.0
// Pools over regions: RoiAlign and MaxRoiPool.
#include "compiler/import/onnx/onnx_import.h"

// An attribute of counts as the core op takes it.
static int64_t small(OnnxNode *n, const char *name, int64_t v, int64_t low)
{
    if (!n->failed && (v < low || v > 4096))
        onnx_fail(n, E0203, "attribute '%s' is %lld, expected %lld to 4096", name, (long long)v,
                  (long long)low);
    return v;
}

static NodeBuild begin_pool(OnnxNode *n, const NodeId src[3], int64_t height, int64_t width, const char *mode)
{
    rlx_assert(height >= 1 && width >= 1);
    NodeBuild b = onnx_begin(n, OP_roi_pool, src, 3);
    node_int(&b, A_roi_pool_height, height);
    node_int(&b, A_roi_pool_width, width);
    node_str(&b, A_roi_pool_mode, mode);
    return b;
}

// Half pixels came in opset 16.
void onnx_import_roi_align(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), rois = onnx_src(n, 1), image = onnx_src(n, 2);
    const bool half_pixel = n->opset >= 16 && ONNX_WORD(n, "coordinate_transformation_mode", "half_pixel",
                                                        "output_half_pixel") == 0;
    const char *mode = ONNX_WORD(n, "mode", "avg", "max") == 1 ? "max" : "avg";
    const int64_t sampling = onnx_int(n, "sampling_ratio", 0);
    const int64_t height = small(n, "output_height", onnx_int(n, "output_height", 1), 1);
    const int64_t width = small(n, "output_width", onnx_int(n, "output_width", 1), 1);
    small(n, "sampling_ratio", sampling < 0 ? 0 : sampling, 0);
    const double scale = onnx_float(n, "spatial_scale", 1);
    if (n->failed)
        return;
    NodeBuild b = begin_pool(n, (const NodeId[]){x, rois, image}, height, width, mode);
    node_float(&b, A_roi_pool_scale, scale);
    node_int(&b, A_roi_pool_half_pixel, half_pixel);
    node_int(&b, A_roi_pool_sampling, sampling < 0 ? 0 : sampling);
    onnx_out(n, 0, onnx_end(n, &b));
}

// A region is [image, x1, y1, x2, y2].
void onnx_import_max_roi_pool(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), given = onnx_src(n, 1);
    const double scale = onnx_float(n, "spatial_scale", 1);
    OnnxInts size;
    onnx_ints(n, "pooled_shape", &size);
    if (!n->failed && size.n != 2)
        onnx_fail(n, E0203, "attribute 'pooled_shape' has %u entries, expected 2", size.n);
    if (!n->failed && onnx_shape(n, given)->rank != 2)
        onnx_fail(n, E0204, "needs regions [R, 5]");
    const int64_t height = small(n, "pooled_shape", n->failed ? 1 : size.v[0], 1);
    const int64_t width = small(n, "pooled_shape", n->failed ? 1 : size.v[1], 1);
    const NodeId image =
        onnx_reshape_to(n, onnx_cast(n, onnx_slice(n, given, 1, 0, 1, 1), DTYPE_i64), (const Dim[]){-1}, 1);
    const NodeId rois = onnx_slice(n, given, 1, 1, 5, 1);
    if (n->failed)
        return;
    NodeBuild b = begin_pool(n, (const NodeId[]){x, rois, image}, height, width, "bins");
    node_float(&b, A_roi_pool_scale, scale);
    onnx_out(n, 0, onnx_end(n, &b));
}
