// SPDX-License-Identifier: Apache-2.0
// The table of operators.
#include "compiler/import/tflite/tfl_import.h"

static const TflOp ops[] = {
#define TFL_OP(code, name, options, fn)     {code, #name, options, OP_none, tfl_import_##fn},
#define TFL_EW(code, name, options, fn, op) {code, #name, options, OP_##op, tfl_import_##fn},
#include "compiler/import/tflite/tfl_ops.def"
};

const TflOp *tfl_op_find(int32_t code)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].code == code)
            return &ops[i];
    return NULL;
}
