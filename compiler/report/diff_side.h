// SPDX-License-Identifier: Apache-2.0
// What `rlxc diff` compares: a compile, as its figures and its kernels.
#ifndef COMPILER_REPORT_DIFF_SIDE_H
#define COMPILER_REPORT_DIFF_SIDE_H

#include "compiler/cli/cli.h"

// Figures of compiles and kernels, by the names of `inspect --json` and `bench --json`.
enum { DIFF_MAX_FIGURES = 20 };
extern const char *const diff_figures[DIFF_MAX_FIGURES + 1]; // ends with NULL

typedef struct DiffFigures {
    double value[DIFF_MAX_FIGURES];
    bool has[DIFF_MAX_FIGURES];
} DiffFigures;

typedef struct DiffKernel {
    const char *name, *nodes; // nodes: what it computes
    DiffFigures figures;
    const char *text; // of its function; NULL: not known, or that of another kernel
    size_t len;
    bool is_matched;
} DiffKernel;

typedef struct DiffSide {
    const char *path;
    DiffFigures figures;
    VEC(DiffKernel) kernels;
} DiffSide;

// path: a model, which is compiled with the options of c; a folder with generated code; or what
// `rlxc inspect --json` or `rlxc bench --json` printed. False: reported.
bool diff_read(Cli *c, const char *path, DiffSide *out);

#endif
