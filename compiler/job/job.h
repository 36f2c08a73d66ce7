// SPDX-License-Identifier: Apache-2.0
// One compilation, as the commands that compile share it: options read, model imported, planned, emitted.
#ifndef COMPILER_JOB_JOB_H
#define COMPILER_JOB_JOB_H

#include "codegen/host/host.h"
#include "codegen/target/board.h"
#include "compiler/job/buckets.h"
#include "compiler/job/given.h"
#include "compiler/images/metal_image.h"
#include "compiler/images/nvrtc.h"
#include "compiler/job/pipeline.h"
#include "compiler/images/spirv.h"
#include "compiler/job/streaming.h"

typedef struct Job {
    Cli *cli;
    const char *model; // path
    Given given;       // about its inputs
    const Target *target;
    CpuInfo cpu;
    Board board; // --board; name NULL: none
    TargetCaps caps;
    Nvrtc nvrtc;    // --target cuda
    SpirvJob spirv; // --target vulkan
    MetalImages metal; // --target metal
    PipelineOptions pipeline;
    HostOptions host;
    BucketSizes buckets;   // --bucket
    bool rounds_twice;     // --rounding=double
    uint32_t string_bytes; // --string-bytes; 0: not given
    int64_t context;       // --context; 0: not given
    bool has_f16_caches;   // --kv f16
    bool has_rings;        // --windows ring
    int64_t slots;         // --slots; 0: not given
    int64_t drafts;        // --drafts; 0: not given
    LlmAdapter *adapters;  // --lora
    uint32_t n_adapters;
    uint32_t outputs;      // --outputs: LLM_GIVES_*; 0: not given
    Streaming stream;    // --stream
    bool has_all_inputs;
    const char *cc_more; // one more argument of the C compiler, or NULL
    bool has_custom;     // the model has custom ops
    bool is_on_cpu;      // Metal text runs on this machine's CPU
    Graph *graph; // as imported
    GraphReads *reads;   // with --weights load: constants that were looked at
    uint32_t n_imported; // with --weights inplace: nodes before passes add some
    Plan *plan;   // NULL when --stop-after ended before one existed
    struct Tensor *params; // by slot: values of parameters (feeds.h); data NULL: the initial one
    struct Job *fallback; // --target X,c: the same for C; or NULL
    Emitted emitted;
    const char *validated; // what --validate says of the code; or NULL
    const char *session;   // of a language model: what a session takes, in words; NULL: there are none
    size_t session_bytes;  // and in a number
} Job;

// Checks the options and the one model argument, imports the model. False: reported.
// has_all_inputs: no input that is missing is made up, so a sequence without elements is empty.
bool job_begin(Job *j, Cli *c, const char *default_cpu, bool has_all_inputs);
// Imports a model that is not compiled, by the options that say how to read it. False: reported.
bool job_read(Job *j, Cli *c, const char *model);
// What a file of measured choices calls where they were measured; gpu: which one of --gpu, on GPU targets.
const char *job_tune_place(const Job *j, uint32_t gpu);
bool job_plan(Job *j);
// The model again, with other sizes: import, and a plan. *plan is NULL where --stop-after ended.
bool job_import(Job *j, const Given *given, Graph **out);
bool job_plan_graph(Job *j, Graph *g, const PipelineOptions *o, Plan **out);
// After --stop-after: there is nothing to print but that.
ExitCode job_end_early(Job *j);
bool job_emit(Job *j);
// Writes the emitted files into a folder (made if missing).
bool job_write(Job *j, const char *dir);

// Can this be the name of generated files and functions? False: reported.
bool job_check_name(Arena *a, Diag *d, const char *name);

#endif
