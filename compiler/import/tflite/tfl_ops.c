// SPDX-License-Identifier: Apache-2.0
// The table of operators.
#include "compiler/import/tflite/tfl_import.h"

#include <string.h>

static const TflOp ops[] = {
#define TFL_OP(code, name, options, fn)     {code, #name, options, false, OP_none, tfl_import_##fn},
#define TFL_NEW(code, name, options, fn)    {code, #name, options, true, OP_none, tfl_import_##fn},
#define TFL_EW(code, name, options, fn, op) {code, #name, options, false, OP_##op, tfl_import_##fn},
#include "compiler/import/tflite/tfl_ops.def"
};

const TflOp *tfl_op_find(int32_t code)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].code == code)
            return &ops[i];
    return NULL;
}

static const TflOp customs[] = {
#define TFL_CUSTOM(name, fn) {0, name, 0, false, OP_none, tfl_import_##fn},
#include "compiler/import/tflite/tfl_ops.def"
};

const TflOp *tfl_op_named(const char *name)
{
    for (size_t i = 0; i < sizeof customs / sizeof *customs; i++)
        if (strcmp(customs[i].name, name) == 0)
            return &customs[i];
    return NULL;
}
