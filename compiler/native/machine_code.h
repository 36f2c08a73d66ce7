// SPDX-License-Identifier: Apache-2.0
// How many bytes of flash the generated code takes: it is compiled for its CPU, and the sections of the
// object file are added up. Separate from inspect, which prints it.
#ifndef COMPILER_NATIVE_MACHINE_CODE_H
#define COMPILER_NATIVE_MACHINE_CODE_H

#include "compiler/job/job.h"

typedef struct MachineCode {
    const char *unknown;  // why it is not known, or NULL
    const char *compiler; // what compiled it: "gcc -O3 -march=armv8-a"
    uint64_t code_bytes;  // machine code, without libm and what the program around it has
    uint64_t const_bytes; // constants, without the weights
} MachineCode;

// The compiler for the CPU of a job. NULL: there is none here.
const char *machine_code_compiler(const Job *j);
// Counts the code of an emitted job of target c. Reports nothing. The object is kept in the cache of
// libraries.
MachineCode machine_code_count(const Job *j);

#endif
