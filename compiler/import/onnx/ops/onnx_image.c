// SPDX-License-Identifier: Apache-2.0
// Image files are out of scope: decoding JPEG, PNG, WebP ... needs codecs, which generated code does not
// have.
#include "compiler/import/onnx/onnx_import.h"

void onnx_import_image_decoder(OnnxNode *n)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        onnx_skip(n, i);
    onnx_fail(n, E0206,
              "generated code has no codecs for image files; decode the image before, and give its pixels");
}
