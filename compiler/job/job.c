// SPDX-License-Identifier: Apache-2.0
// See job.h.
#include "compiler/job/job.h"
#include "codegen/host/object.h"
#include "compiler/cli/cli_tables.h"
#include "compiler/import/import.h"
#include "compiler/job/banks.h"
#include "compiler/job/custom.h"
#include "compiler/job/extents.h"
#include "compiler/job/feeds.h"
#include "compiler/job/handles.h"
#include "compiler/job/inplace.h"
#include "compiler/job/keep.h"
#include "compiler/job/language.h"
#include "compiler/job/stream_input.h"
#include "compiler/job/tune_file.h"
#include "compiler/system/output.h"
#include <string.h>

static bool wrong_value(Job *j, const char *option, const char *value, const char *expected)
{
    return diag_error(j->cli->diag, (Span){0}, E0003, "%s %s: expected %s", option, value, expected);
}

// The place of a value among the words of its option in options.def, which stand in the order of the
// enumerators of a mode. What was not given leaves *out as it is.
static bool choose(Job *j, const char *option, const char *value, uint32_t *out)
{
    rlx_assert(option_find(option) != NULL && option_find(option)->value != NULL);
    Str expected = str_new(j->cli->arena);
    const char *word = option_find(option)->value;
    if (value == NULL)
        return true;
    for (uint32_t i = 0; *word != '\0'; i++) {
        const size_t n = strcspn(word, "|");
        if (strlen(value) == n && memcmp(value, word, n) == 0) {
            *out = i;
            return true;
        }
        str_printf(&expected, "%s%.*s", i == 0 ? "" : ", ", (int)n, word);
        word += n + (word[n] == '|');
    }
    return wrong_value(j, option, value, str_text(&expected));
}

static bool check_pass(Job *j, const char *option, const char *name)
{
    if (name == NULL || pipeline_find_pass(name) != NULL ||
        (strcmp(option, "--dump") == 0 && strcmp(name, "all") == 0))
        return true;
    return wrong_value(j, option, name, "the name of a pass (`rlxc passes` lists them)");
}

static bool read_goal(Job *j)
{
    const char *given = j->cli->options.plan;
    uint32_t goal = PLAN_MEMORY;
    if (!choose(j, "--plan", given, &goal))
        return false;
    if (goal == PLAN_LATENCY && !j->target->caps.is_gpu) // whose kernels run side by side
        return wrong_value(j, "--plan", given, "memory, or --target cuda, vulkan or metal with it");
    j->pipeline.goal = (PlanGoal)goal;
    return true;
}

static bool read_ram(Job *j, uint64_t *ram)
{
    const char *given = j->cli->options.ram;
    if (given == NULL)
        return true;
    if (!banks_read_size(given, strlen(given), ram))
        return wrong_value(j, "--ram", given, "a number of bytes, such as 65536 or 64K");
    return !j->target->caps.is_gpu ||
           wrong_value(j, "--ram", given, "a target without a device, whose memory this is");
}

static bool read_positive(Job *j, const char *option, const char *given, double *v)
{
    return given == NULL || (str_parse_f64(given, strlen(given), v) && *v >= 0) ||
           wrong_value(j, option, given, "a number that is not negative");
}

static bool read_up_to(Job *j, const char *option, uint32_t most, const char *given, double *v)
{
    return given == NULL || (str_parse_f64(given, strlen(given), v) && *v >= 0 && *v <= most) ||
           wrong_value(j, option, given, arena_printf(j->cli->arena, "a number from 0 to %u", most));
}

static bool read_pipeline_options(Job *j)
{
    enum { MOST_PERCENT = 1000 };
    const Options *o = &j->cli->options;
    const char *level = o->level != NULL ? o->level : "3";
    double accuracy = 1e-5, price = 0.03, spare = 5;
    uint64_t ram = 0;
    if (strlen(level) != 1 || level[0] < '0' || level[0] > '3')
        return wrong_value(j, "-O", level, "0, 1, 2 or 3");
    if (!read_up_to(j, "--accuracy", 1, o->accuracy, &accuracy) ||
        !read_positive(j, "--memory-price", o->memory_price, &price) ||
        !read_up_to(j, "--spare-ram", MOST_PERCENT, o->spare_ram, &spare) || !read_ram(j, &ram))
        return false;
    j->pipeline = (PipelineOptions){.opt_level = level[0] - '0',
                                    .allow_fast = o->fast != NULL,
                                    .accuracy = accuracy,
                                    .memory_price = price,
                                    .ram = ram,
                                    .spare_ram = spare,
                                    .is_dynamic = o->dynamic != NULL,
                                    .no_fuse = o->no_fuse != NULL,
                                    .no_prune = o->no_prune != NULL,
                                    .no_reorder = o->no_reorder != NULL,
                                    .caps = &j->caps,
                                    .dump = o->dump,
                                    .stop_after = o->stop_after,
                                    .time_passes = o->time_passes != NULL,
                                    .report = stderr};
    return read_goal(j) && check_pass(j, "--dump", o->dump) && check_pass(j, "--stop-after", o->stop_after);
}

static bool read_rounding(Job *j)
{
    uint32_t word = 0;
    if (!choose(j, "--rounding", j->cli->options.rounding, &word))
        return false;
    j->rounds_twice = word == 1;
    return true;
}

static bool read_threads(Job *j)
{
    enum { MAX = 64 }; // RLX_MAX_THREADS
    const char *given = j->cli->options.threads;
    int64_t n = 1;
    if (given != NULL && (!str_parse_i64(given, strlen(given), &n) || n < 1 || n > MAX))
        return wrong_value(j, "--threads", given, "a whole number from 1 to 64");
    j->caps.threads = (uint8_t)n;
    return true;
}

// Such a CPU drives none of the devices, and what runs on it has no operating system.
static bool check_microcontroller(Job *j)
{
    const Options *o = &j->cli->options;
    const bool has_pool = o->pool != NULL && strcmp(o->pool, "caller") == 0;
    if ((j->cpu.features & CPU_INTEGERS) == 0)
        return true;
    if (j->target->caps.is_gpu)
        return wrong_value(
            j, "--target", o->target,
            arena_printf(j->cli->arena, "c: no program for a %s drives such a device", j->cpu.name));
    return j->caps.threads == 1 || has_pool ||
           wrong_value(j, "--threads", o->threads,
                       "--pool caller with it: a microcontroller has no POSIX threads");
}

// A device has threads of its own; and only CUDA has kernels of which several are considered.
static bool check_gpu_options(Job *j)
{
    const Options *o = &j->cli->options;
    const bool tunes = o->tune != NULL && j->target->device != DEVICE_CUDA;
    const char *no = o->threads != NULL ? "--threads" : tunes ? "--tune" : NULL;
    return no == NULL || diag_error(j->cli->diag, (Span){0}, E0003, "%s cannot be combined with --target %s",
                                    no, j->target->name);
}

static bool read_gpus(Job *j)
{
    const char *given = j->cli->options.gpu;
    const char *gpus = given != NULL && j->target->device == DEVICE_CUDA ? given : "sm_80,sm_90a";
    if (j->target->set_gpu != NULL && given != NULL && !j->target->set_gpu(given, &j->caps))
        return wrong_value(j, "--gpu", given, j->target->gpu_words);
    if (!j->target->caps.is_gpu && given != NULL)
        return wrong_value(j, "--gpu", given, "a GPU target with it");
    if (j->target->device != DEVICE_METAL && j->cli->options.metallib != NULL)
        return wrong_value(j, "--metallib", j->cli->options.metallib, "--target metal with it");
    if (!j->target->caps.is_gpu)
        return true;
    j->spirv = (SpirvJob){j->cli->arena, j->cli->diag};
    j->metal = (MetalImages){j->cli->arena, j->cli->diag, j->cli->options.metallib};
    j->nvrtc = (Nvrtc){.arena = j->cli->arena, .diag = j->cli->diag};
    if (!nvrtc_read_gpus(j->cli->arena, gpus, &j->nvrtc.gpus))
        return wrong_value(j, "--gpu", gpus, "up to 8 GPUs, as sm_80,sm_90a, or text");
    if (j->target == &target_cuda && j->nvrtc.gpus.n > 0)
        j->caps.gpu = gpu_machine(nvrtc_newest(&j->nvrtc.gpus)); // one table of launches serves all
    return check_gpu_options(j);
}

static bool unknown_name(const Job *j, const char *option, const char *name, const char *kind,
                         const char *near)
{
    diag_error(j->cli->diag, (Span){0}, E0301, "%s %s: no such %s", option, name, kind);
    if (near != NULL)
        diag_note(j->cli->diag, (Span){0}, "did you mean '%s'?", near);
    diag_note(j->cli->diag, (Span){0}, "`rlxc targets` lists all");
    return false;
}

static bool unknown_cpu(const Job *j, const char *cpu)
{
    uint32_t n = 0;
    while (cpu_names[n] != NULL)
        n++;
    return unknown_name(j, "--cpu", cpu, "CPU", str_closest(cpu, cpu_names, n));
}

static bool unknown_board(const Job *j, const char *name)
{
    Arena *a = j->cli->arena;
    Strings names = {0};
    Board board;
    for (uint32_t i = 0; board_at(a, i, &board); i++)
        vec_push(a, &names, board.name);
    return unknown_name(j, "--board", name, "board", str_closest(name, names.data, names.len));
}

// With --board, *cpu is the board's.
static bool read_board(Job *j, const char **cpu)
{
    const Options *o = &j->cli->options;
    if (o->board == NULL)
        return true;
    if (!board_find(j->cli->arena, o->board, &j->board))
        return unknown_board(j, o->board);
    if (o->cpu != NULL && strcmp(o->cpu, j->board.cpu) != 0)
        return diag_error(j->cli->diag, (Span){0}, E0003, "--board %s has a %s, not the %s that --cpu names",
                          o->board, j->board.cpu, o->cpu);
    *cpu = j->board.cpu;
    return true;
}

static bool read_target(Job *j, const char *default_cpu)
{
    const Options *o = &j->cli->options;
    const char *target = o->target != NULL ? o->target : "c", *cpu = o->cpu != NULL ? o->cpu : default_cpu;
    const size_t n = strcspn(target, ",");
    j->target = target_find(arena_strndup(j->cli->arena, target, n));
    if (strcmp(target + n, ",c") == 0 && j->target != NULL && j->target->caps.is_gpu)
        j->fallback = ARENA_NEW(j->cli->arena, Job);
    if (j->target == NULL || (target[n] != '\0' && j->fallback == NULL))
        return diag_error(j->cli->diag, (Span){0}, E0301,
                          "--target %s: expected c, cuda, vulkan or metal, or one of the last three with ,c",
                          target);
    if (!read_board(j, &cpu))
        return false;
    if (!cpu_find(cpu, &j->cpu))
        return unknown_cpu(j, cpu);
    j->caps = target_caps(j->target, &j->cpu);
    return read_threads(j) && check_microcontroller(j) && read_gpus(j);
}

static bool read_moe(Job *j)
{
    enum { MAX = 1 << 20 };
    const char *given = j->cli->options.moe_resident;
    int64_t n = 0;
    if (given != NULL && strcmp(given, "all") != 0 &&
        (!str_parse_i64(given, strlen(given), &n) || n < 1 || n > MAX))
        return wrong_value(j, "--moe-resident", given, "all, or a whole number from 1 to 1048576");
    j->host.moe_slots = (uint32_t)n;
    return true;
}

static bool read_split(Job *j)
{
    enum { MAX = 64 };
    const char *given = j->cli->options.split;
    int64_t n = 1;
    if (given != NULL && (!str_parse_i64(given, strlen(given), &n) || n < 1 || n > MAX))
        return wrong_value(j, "--split", given, "a whole number from 1 to 64");
    if (n > 1 && j->cli->options.one_file != NULL)
        return wrong_value(j, "--split", given, "no --one-file with it");
    if (n > 1 && j->target->caps.is_gpu)
        return wrong_value(j, "--split", given, "--target c with it: other kernels are not in C files");
    j->host.parts = (uint32_t)n;
    return true;
}

// What makes code of the kernels' text.
typedef struct KernelCompiler {
    GpuCompile compile;
    void *ctx;
} KernelCompiler;

static KernelCompiler kernel_compiler(Job *j)
{
    const KernelCompiler of[] = {[DEVICE_HOST] = {NULL, NULL},
                                 [DEVICE_CUDA] = {nvrtc_compile, &j->nvrtc},
                                 [DEVICE_VULKAN] = {spirv_compile_all, &j->spirv},
                                 [DEVICE_METAL] = {metal_make_images, &j->metal}};
    rlx_assert((size_t)j->target->device < sizeof of / sizeof *of);
    return of[j->target->device];
}

static bool read_name(Job *j, const char **out)
{
    Arena *a = j->cli->arena;
    const char *given = j->cli->options.name;
    *out = given != NULL ? given : host_model_name(a, output_stem(a, j->model));
    return job_check_name(a, j->cli->diag, *out);
}

// --weights rodata, and no file beside NAME.c and NAME.h.
static bool read_one_file(Job *j)
{
    Options *o = &j->cli->options;
    if (o->one_file == NULL)
        return true;
    if (o->weights != NULL && strcmp(o->weights, "rodata") != 0)
        return wrong_value(j, "--weights", o->weights, "rodata, which is what --one-file means");
    if (o->moe_resident != NULL && strcmp(o->moe_resident, "all") != 0)
        return wrong_value(j, "--moe-resident", o->moe_resident, "all: --one-file leaves no other file");
    o->weights = "rodata";
    return true;
}

static bool read_weights(Job *j, WeightsMode *mode, const ObjectFormat **object)
{
    const Options *o = &j->cli->options;
    const bool has_incbin = (j->cpu.features & CPU_NO_INCBIN) == 0;
    uint32_t word = WEIGHTS_AUTO;
    if (!choose(j, "--weights", o->weights, &word))
        return false;
    *mode = word == WEIGHTS_AUTO && !has_incbin ? WEIGHTS_RODATA : (WeightsMode)word;
    if (!has_incbin && (word == WEIGHTS_INCBIN || word == WEIGHTS_OBJECT))
        return wrong_value(j, "--weights", o->weights, "rodata or file: its assembler takes in no files");
    if (o->object != NULL && word != WEIGHTS_OBJECT)
        return wrong_value(j, "--object", o->object, "--weights object with it");
    if (word == WEIGHTS_OBJECT)
        *object = object_find(o->object);
    if (word == WEIGHTS_OBJECT && *object == NULL)
        return wrong_value(j, "--object", o->object != NULL ? o->object : "",
                           arena_printf(j->cli->arena, "one of %s", object_names(j->cli->arena)));
    return true;
}

static bool read_host_options(Job *j)
{
    const KernelCompiler compiler = kernel_compiler(j);
    const Options *o = &j->cli->options;
    uint32_t arena = 0, api = API_PLAN, pool = 0;
    const char *name = NULL;
    if (!read_name(j, &name) || !read_one_file(j))
        return false;
    WeightsMode mode = WEIGHTS_AUTO;
    const ObjectFormat *object = NULL;
    if (!read_weights(j, &mode, &object))
        return false;
    if (!choose(j, "--arena", o->arena, &arena) || !choose(j, "--api", o->api, &api) ||
        !choose(j, "--pool", o->pool, &pool))
        return false;
    if (o->pool != NULL && j->caps.threads == 1)
        return wrong_value(j, "--pool", o->pool, "--threads of more than 1 with it");
    if (arena == ARENA_STATIC && (mode == WEIGHTS_FILE || mode == WEIGHTS_INPLACE || mode == WEIGHTS_LOAD))
        return wrong_value(j, "--arena", "static",
                           "weights in the program, not --weights file, inplace or load");
    j->reads = mode == WEIGHTS_LOAD ? graph_reads_new(j->cli->arena) : NULL;
    j->host = (HostOptions){.name = name,
                            .compiler = "rlxc " RLXC_VERSION,
                            .cc_flags = j->caps.threads == 1 || pool == POOL_CALLER
                                            ? j->cpu.cc_flags
                                            : arena_printf(j->cli->arena, "%s%s-pthread", j->cpu.cc_flags,
                                                           *j->cpu.cc_flags ? " " : ""),
                            .cpu = j->cpu.name,
                            .weights = mode,
                            .object = object,
                            .arena = (ArenaMode)arena,
                            .api = (ApiMode)api,
                            .pool = (PoolMode)pool,
                            .compile_gpu = compiler.compile,
                            .compile_gpu_ctx = compiler.ctx,
                            .is_one_file = o->one_file != NULL,
                            .has_handles = o->handles.len != 0,
                            .has_profile = o->profile != NULL,
                            .has_source = o->embed_source != NULL,
                            .has_tables = o->tables != NULL,
                            .runtime = o->link_runtime != NULL ? RUNTIME_LINKED : RUNTIME_PASTED};
    return read_moe(j) && read_split(j);
}

const char *job_tune_place(const Job *j, uint32_t gpu)
{
    rlx_assert(!j->target->caps.is_gpu || gpu < j->nvrtc.gpus.n);
    const char *name = j->target->caps.is_gpu ? j->nvrtc.gpus.name[gpu] : j->cpu.name;
    return arena_printf(j->cli->arena, "%s %s", j->target->caps.is_gpu ? "gpu" : "cpu", name);
}

// Was it measured on what code is generated for now?
static bool is_tuned_here(const Job *j, const TuneFile *file)
{
    const uint32_t n = j->target->caps.is_gpu ? j->nvrtc.gpus.n : 1;
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(file->place, job_tune_place(j, i)) == 0)
            return true;
    return n == 0;
}

// Measured choices.
static bool read_tune(Job *j)
{
    TuneFile file;
    const char *path = j->cli->options.tune;
    if (path == NULL)
        return true;
    if (!tune_file_read(j->cli->arena, j->cli->diag, path, &file))
        return false;
    if (!is_tuned_here(j, &file))
        diag_warning(j->cli->diag, (Span){0}, E0006, "%s was measured for --%s, not for %s", path, file.place,
                     j->target->caps.is_gpu ? "this --gpu" : j->cpu.name);
    j->pipeline.tuned = file.choices.data;
    j->pipeline.n_tuned = file.choices.len;
    return true;
}

static bool read_string_bytes(Job *j)
{
    enum { MAX = 1 << 16 };
    const char *given = j->cli->options.string_bytes;
    int64_t bytes = 0;
    if (given != NULL && (!str_parse_i64(given, strlen(given), &bytes) || bytes < 1 || bytes > MAX))
        return wrong_value(j, "--string-bytes", given, "a whole number from 1 to 65536");
    j->string_bytes = (uint32_t)bytes;
    return true;
}

// Imported again: passes change graphs.
static bool begin_fallback(Job *j)
{
    rlx_assert(j->fallback != NULL);
    Job *f = j->fallback;
    *f = *j;
    f->fallback = NULL;
    f->target = &target_c;
    f->caps = target_caps(&target_c, &j->cpu);
    f->caps.threads = 1;
    f->pipeline.caps = &f->caps;
    return job_import(f, &f->given, &f->graph);
}

bool job_begin(Job *j, Cli *c, const char *default_cpu, bool has_all_inputs)
{
    *j = (Job){.cli = c};
    if (c->options.args.len != 1)
        return diag_error(c->diag, (Span){0}, E0003, "expected one model file, got %u", c->options.args.len);
    j->model = c->options.args.data[0];
    if (!read_target(j, default_cpu) || !read_pipeline_options(j) || !read_host_options(j) ||
        !banks_read(j) || !read_string_bytes(j) || !read_rounding(j) || !language_read(j) || !read_tune(j))
        return false;
    if (!given_read(c, &j->given) || !buckets_read(c, &j->given, &j->buckets) ||
        !streaming_read(c, &j->given, &j->stream))
        return false;
    for (uint32_t i = 0; i < j->given.sizes.len; i++)
        if (j->given.sizes.data[i].is == NULL) // else the import has put the expression for the symbol
            vec_push(c->arena, &j->pipeline.dims, j->given.sizes.data[i]);
    for (uint32_t i = 0; i < j->given.largest.len; i++)
        vec_push(c->arena, &j->pipeline.largest, j->given.largest.data[i]);
    j->has_all_inputs = has_all_inputs || c->options.inputs.len != 0;
    cli_progress("reading the model");
    if (!job_import(j, &j->given, &j->graph))
        return false;
    language_open_sizes(j);
    j->has_custom = custom_has(j->graph);
    custom_evaluate(j);
    return feeds_check(j) && (j->fallback == NULL || begin_fallback(j));
}

bool job_read(Job *j, Cli *c, const char *model)
{
    *j = (Job){.cli = c, .model = model};
    return read_rounding(j) && language_read(j) && given_read(c, &j->given) &&
           job_import(j, &j->given, &j->graph);
}

bool job_import(Job *j, const Given *given, Graph **out)
{
    const double BF16_ERROR = 1e-2; // of a product whose rows and results are rounded to bf16
    rlx_assert(j->model != NULL && given != NULL);
    Cli *c = j->cli;
    ImportOptions options = given_options(given, j->has_all_inputs);
    options.string_bytes = j->string_bytes;
    options.llm = (LlmOptions){.context = j->context,
                               .has_f16_caches = j->has_f16_caches,
                               .has_bf16_rows = j->target != NULL && j->target->caps.is_gpu &&
                                                j->pipeline.accuracy >= BF16_ERROR,
                               .has_rings = j->has_rings,
                               .outputs = j->outputs,
                               .slots = j->slots,
                               .drafts = j->drafts,
                               .adapters = j->adapters,
                               .n_adapters = j->n_adapters,
                               .measures = c->options.imatrix_out != NULL,
                               .gives_best = j->target != NULL && j->target->caps.is_gpu,
                               .reads = j->reads};
    options.rounds_twice = j->rounds_twice;
    options.has_cpu = j->target != NULL && !j->target->caps.is_gpu;
    options.signature = c->options.signature;
    options.trusts_data = c->trusts_data;
    if (!import_model_with(c->arena, c->diag, j->model, &options, out))
        return false;
    (*out)->reads = j->reads;
    return handles_apply(c, &c->options.handles, out) &&
           streaming_apply(&j->stream, c->diag, &j->pipeline, out) &&
           stream_input_apply(c, &j->pipeline, out) && keep_apply(c, &c->options.keeps, *out);
}

bool job_plan_graph(Job *j, Graph *g, const PipelineOptions *o, Plan **out)
{
    rlx_assert(g != NULL && o->caps != NULL);
    return custom_check(g, o->caps->name) && pipeline_run(j->cli->arena, j->cli->diag, g, o, out) &&
           (*out == NULL || (keep_take(&j->cli->options.keeps, *out), sets_apply(j->cli, *out)));
}

// All plans read experts in the same place.
static bool place_experts(Job *j)
{
    rlx_assert(j->plan != NULL);
    uint64_t n = 0;
    if (j->host.moe_slots == 0)
        return true;
    for (uint32_t i = 0; i < j->plan->experts.layers.len; i++)
        n += j->plan->experts.layers.data[i].parts.len > 0
                 ? (uint64_t)j->plan->experts.layers.data[i].n_experts
                 : 0;
    if (n == 0)
        return wrong_value(j, "--moe-resident", j->cli->options.moe_resident,
                           "a model with experts whose weights are constants");
    if (j->host.moe_slots > n)
        return wrong_value(
            j, "--moe-resident", j->cli->options.moe_resident,
            arena_printf(j->cli->arena, "at most %llu, the experts of all layers", (unsigned long long)n));
    j->plan->experts.slots = j->host.moe_slots;
    for (uint32_t i = 0; j->plan->buckets != NULL && i < j->plan->buckets->n; i++)
        j->plan->buckets->plan[i]->experts.slots = j->host.moe_slots;
    return true;
}

bool job_plan(Job *j)
{
    rlx_assert(j->graph != NULL);
    cli_progress("compiling");
    j->pipeline.has_buckets = j->buckets.n != 0;
    j->pipeline.moe_slots = j->host.moe_slots;
    if (j->host.weights == WEIGHTS_INPLACE && !inplace_choose(j))
        return false;
    if (!job_plan_graph(j, j->graph, &j->pipeline, &j->plan) ||
        (j->plan != NULL && (!buckets_plan(j) || !place_experts(j) || !inplace_check(j) || !banks_check(j))))
        return false;
    if (j->plan != NULL && j->host.has_tables)
        extents_note(j->plan);
    return j->fallback == NULL || job_plan(j->fallback);
}

ExitCode job_end_early(Job *j)
{
    rlx_assert(j->cli->options.stop_after != NULL);
    cli_progress_end();
    diag_print(j->cli->diag, stderr, j->cli->style);
    if (j->cli->options.json != NULL)
        printf("{\"stopped_after\": \"%s\"}\n", j->cli->options.stop_after);
    return EXIT_OK;
}

bool job_emit(Job *j)
{
    rlx_assert(j->plan != NULL && (j->fallback == NULL || j->fallback->plan != NULL));
    cli_progress("writing C");
    if (j->fallback != NULL)
        j->host.fallback = j->fallback->plan;
    if (j->host.weights == WEIGHTS_LOAD && j->host.load == NULL)
        return wrong_value(j, "--weights", "load", "compile or inspect with it");
    return host_emit(j->cli->arena, j->cli->diag, j->target, j->plan, &j->host, &j->emitted);
}
