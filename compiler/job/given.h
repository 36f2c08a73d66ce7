// SPDX-License-Identifier: Apache-2.0
// What the command line says about the inputs of a model: --dim, --shape, --value, and the files of --input.
#ifndef COMPILER_JOB_GIVEN_H
#define COMPILER_JOB_GIVEN_H

#include "compiler/cli/cli.h"
#include "compiler/import/import.h"

typedef struct Given {
    VEC(ImportSize) sizes;
    VEC(ImportSize) largest; // --arena-at
    VEC(ImportShape) shapes;
    VEC(ImportValue) values;
    const struct CustomDecls *custom; // --custom; NULL: none
} Given;

// Reads the options, and the files of --input: their shapes are sizes, and what is short may decide about
// the graph. False: reported.
bool given_read(Cli *c, Given *out);
ImportOptions given_options(const Given *g, bool has_all_inputs);

#endif
