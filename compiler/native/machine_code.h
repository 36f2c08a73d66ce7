// SPDX-License-Identifier: Apache-2.0
// How many bytes of flash and of stack the generated code takes: it is compiled for its CPU, and the sections
// of the object file are added up. Separate from inspect, which prints it.
#ifndef COMPILER_NATIVE_MACHINE_CODE_H
#define COMPILER_NATIVE_MACHINE_CODE_H

#include "compiler/job/job.h"
#include "compiler/native/call_graph.h"

typedef struct MachineCode {
    const char *unknown;  // why it is not known, or NULL
    const char *compiler; // what compiled it: "gcc -O3 -march=armv8-a"
    const char *version;  // of the compiler, in its words; "": it does not say
    uint64_t code_bytes;  // machine code, without libm and what the program around it has
    uint64_t const_bytes; // constants, without the weights
    uint64_t data_bytes;  // of these: with addresses, or variables, for which there is RAM as well
    uint64_t bss_bytes;   // RAM for other variables
    CallGraph stack;      // its functions, and `run`, which calls rlx_run
} MachineCode;

// The compiler for the CPU of a job. NULL: there is none here.
const char *machine_code_compiler(const Job *j);
// Counts the code of an emitted job of target c, compiled with these options as well. Reports nothing. The
// object is kept in the cache of libraries.
MachineCode machine_code_count(const Job *j, const char *more);

// Members: bytes by section, with those of the weights in the program; functions and what they take of the
// stack.
void machine_code_sections_json(const MachineCode *c, uint64_t weight_bytes, Str *out);
void machine_code_stack_json(const MachineCode *c, Str *out);

#endif
