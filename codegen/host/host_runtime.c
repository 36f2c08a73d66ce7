// SPDX-License-Identifier: Apache-2.0
// Which parts of runtime-lite a model's header has.
#include "codegen/host/host_parts.h"
#include "codegen/host/runtime_text.h"
#include <string.h>

typedef struct RuntimePart {
    const char *file;
    const char *const *text;
    bool (*is_needed)(const HostEmit *e); // NULL: only by parts that include it
} RuntimePart;

bool host_is_parallel(const HostEmit *e)
{
    return e->plan->caps->threads > 1;
}

bool host_has_pool(const HostEmit *e)
{
    return host_is_parallel(e) && e->options->pool == POOL_POSIX;
}

static bool is_always(const HostEmit *e)
{
    (void)e;
    return true;
}

static bool has_whole_api(const HostEmit *e)
{
    return e->options->api == API_FULL;
}

// The whole of the API is there for programs that take any model.
static bool has_values(const HostEmit *e)
{
    return has_whole_api(e) || e->plan->params.len + e->plan->states.len != 0;
}

static bool has_symbols(const HostEmit *e)
{
    return e->plan->page != 0;
}

static bool has_gpu(const HostEmit *e)
{
    return e->device != NULL;
}

static bool has_look(const HostEmit *e)
{
    return has_whole_api(e) || e->options->has_profile || has_gpu(e);
}

static bool has_tables(const HostEmit *e)
{
    return e->options->has_tables;
}

static bool has_gpu_moe(const HostEmit *e)
{
    return has_gpu(e) && host_has_moe(e);
}

static bool has_cuda(const HostEmit *e)
{
    return has_gpu(e) && e->target->device == DEVICE_CUDA;
}

static bool has_vulkan(const HostEmit *e)
{
    return has_gpu(e) && e->target->device == DEVICE_VULKAN;
}

static bool has_metal(const HostEmit *e)
{
    return has_gpu(e) && e->target->device == DEVICE_METAL;
}

// Behind what they include.
static const RuntimePart parts[] = {
    {"rlx_types.h", types_text, NULL},
    {"rlx.h", runtime_text, NULL},
    {"rlx_times.h", times_text, NULL},
    {"rlx_run.h", run_text, NULL},
    {"rlx_held.h", held_text, NULL},
    {"rlx_calls.h", calls_text, is_always},
    {"rlx_numbers.h", numbers_text, NULL},
    {"rlx_values.h", values_text, has_values},
    {"rlx_symbols.h", symbols_text, has_symbols},
    {"rlx_moe.h", moe_text, host_has_moe},
    {"rlx_buckets.h", buckets_text, has_symbols},
    {"rlx_parallel.h", parallel_text, host_is_parallel},
    {"rlx_threads.h", threads_text, host_has_pool},
    {"rlx_errors.h", errors_text, has_whole_api},
    {"rlx_runs.h", runs_text, has_whole_api},
    {"rlx_devices.h", devices_text, has_whole_api},
    {"rlx_links.h", links_text, has_whole_api},
    {"rlx_handles.h", handles_text, has_whole_api},
    {"rlx_look.h", look_text, has_look},
    {"rlx_tables.h", tables_text, has_tables},
    {"rlx_typed.h", typed_text, has_whole_api},
    {"rlx_params.h", params_text, has_whole_api},
    {"rlx_gpu.h", gpu_text, has_gpu},
    {"rlx_moe_gpu.h", moe_gpu_text, has_gpu_moe},
    {"rlx_cuda_api.h", cuda_api_text, has_cuda},
    {"rlx_cuda_devices.h", cuda_devices_text, has_cuda},
    {"rlx_cuda_graph.h", cuda_graph_text, has_cuda},
    {"rlx_cuda_nodes.h", cuda_nodes_text, has_cuda},
    {"rlx_cuda_queue.h", cuda_queue_text, has_cuda},
    {"rlx_cuda.h", cuda_text, has_cuda},
    {"rlx_vulkan_api.h", vulkan_api_text, has_vulkan},
    {"rlx_vulkan_device.h", vulkan_device_text, has_vulkan},
    {"rlx_vulkan_commands.h", vulkan_commands_text, has_vulkan},
    {"rlx_vulkan.h", vulkan_text, has_vulkan},
    {"rlx_metal_api.h", metal_api_text, has_metal},
    {"rlx_metal.h", metal_text, has_metal},
};
enum { N_PARTS = sizeof parts / sizeof *parts };

bool host_runtime_part(uint32_t i, HostText *out)
{
    if (i >= N_PARTS)
        return false;
    *out = (HostText){parts[i].file, parts[i].text};
    return true;
}

HostText host_stubs(void)
{
    return (HostText){"rlx_stubs.h", stubs_text};
}

static const char include[] = "#include \"rlx";
enum { PREFIX = sizeof include - 4 }; // up to the name of the file

static bool is_include(const char *line)
{
    return strncmp(line, include, sizeof include - 1) == 0;
}

// Marks what these parts include; they stand behind it.
static void add_included(bool *is_in)
{
    for (uint32_t i = N_PARTS; i-- > 0;)
        for (const char *const *line = parts[i].text; is_in[i] && *line != NULL; line++)
            for (uint32_t k = 0; is_include(*line) && k < i; k++) {
                const size_t n = strlen(parts[k].file);
                is_in[k] |= strncmp(*line + PREFIX, parts[k].file, n) == 0 && (*line)[PREFIX + n] == '"';
            }
}

// A part that is pasted finds the others above it.
static void paste(const char *const *line, Str *out)
{
    for (; *line != NULL; line++)
        if (!is_include(*line))
            str_add(out, *line);
}

void host_paste_runtime(const Map *files, Str *out)
{
    uint64_t unused;
    bool is_in[N_PARTS] = {false};
    for (uint32_t i = 0; i < N_PARTS; i++)
        is_in[i] = map_get_str(files, parts[i].file, &unused);
    add_included(is_in);
    for (uint32_t i = 0; i < N_PARTS; i++)
        if (is_in[i])
            paste(parts[i].text, out);
}

static void find_parts(const HostEmit *e, bool *is_in)
{
    for (uint32_t i = 0; i < N_PARTS; i++)
        is_in[i] = parts[i].is_needed != NULL && parts[i].is_needed(e);
    add_included(is_in);
}

void host_emit_runtime(const HostEmit *e, Str *out)
{
    bool is_in[N_PARTS] = {false};
    find_parts(e, is_in);
    for (uint32_t i = 0; i < N_PARTS; i++)
        if (is_in[i])
            paste(parts[i].text, out);
}

bool host_has_runtime_file(const HostEmit *e)
{
    return e->options->runtime == RUNTIME_PASTED && !e->options->is_one_file;
}

static const char *file_name(Arena *a, const char *model)
{
    return arena_printf(a, "%s" HOST_RUNTIME ".h", model);
}

void host_emit_includes(const HostEmit *e, Str *out)
{
    bool is_in[N_PARTS] = {false};
    if (host_has_runtime_file(e)) {
        str_printf(out,
                   "// The types, and the calls that are the same for all models: rlx_input, rlx_run ...\n"
                   "#include \"%s\"\n\n",
                   file_name(e->arena, e->options->name));
        return;
    }
    if (e->options->runtime == RUNTIME_PASTED) {
        host_emit_runtime(e, out);
        return;
    }
    find_parts(e, is_in);
    for (uint32_t i = 0; i < N_PARTS; i++)
        if (is_in[i])
            str_printf(out, "#include \"%s\"\n", parts[i].file);
    str_char(out, '\n');
}
