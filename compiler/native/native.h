// SPDX-License-Identifier: Apache-2.0
// Generated code as a loaded library: built with the system C compiler, kept in a cache by content, bound to
// a context.
#ifndef COMPILER_NATIVE_NATIVE_H
#define COMPILER_NATIVE_NATIVE_H

#include "compiler/job/job.h"
#include "ir/graph/tensor.h"
#include "runtime-lite/rlx.h"
#include "runtime-lite/rlx_symbols.h"
#include "runtime-lite/rlx_threads.h"
#include "runtime-lite/rlx_states.h"
#include "runtime-lite/rlx_values.h"

typedef struct Native {
    void *library;
    const rlx_model *model;
    rlx_ctx ctx;
    rlx_pool *pool; // --threads; NULL: none
    void (*stop_threads)(rlx_ctx *ctx);
    bool was_cached;
} Native;

// Code for another CPU would end in an illegal instruction, or not compile. False: reported.
bool native_check_cpu(const Job *j);
// The C compiler: $CC, or cc. May be several words.
const char *native_compiler(void);
// Adds what is between spaces.
void native_add_words(Arena *a, const char *text, Strings *argv);
// Starts a program in a folder and waits until it has ended. False: reported, as a failure on `what`
// (NULL: what it prints is lost).
bool native_start(Job *j, const char *dir, Strings *argv, const char *what);
// job_emit for native_open with the same `keep`: a library of many kernels is made from as many parts as C
// compilers can work side by side, where nobody looks at its sources.
bool native_emit(Job *j, const char *keep);
// Builds (or finds) the library of an emitted job and makes a context. keep: folder for the sources and the
// library, NULL = the cache (libraries.h). False: reported.
bool native_open(Job *j, const char *keep, Native *out);
// The two halves of it: builds the library in a folder, in which the sources stay, and loads one (which may
// be open already).
bool native_build(Job *j, const char *dir, const char **library);
bool native_load(Job *j, const char *library, Native *out);
void native_close(Native *n);
// Sets the symbols of the model, by slot. False: reported.
bool native_set_sizes(Job *j, Native *n, const int64_t *values);
// Runs once: copies the inputs (by slot) in, gives views on the outputs in the arena.
bool native_run(Job *j, Native *n, const Tensor *inputs, Tensor *outputs);

#endif
