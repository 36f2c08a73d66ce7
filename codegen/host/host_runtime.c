// SPDX-License-Identifier: Apache-2.0
// Which parts of runtime-lite a model's header has, and which lines of them.
#include "codegen/host/host_parts.h"
#include "codegen/host/host_paste.h"
#include <string.h>

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

static bool has_gpu(const HostEmit *e)
{
    return e->device != NULL;
}

static bool has_symbols(const HostEmit *e)
{
    return e->plan->page != 0;
}

static bool has_params(const HostEmit *e)
{
    return e->plan->params.len != 0;
}

static bool has_sizes(const HostEmit *e)
{
    return e->plan->sizes.len != 0;
}

static bool has_rows(const HostEmit *e)
{
    return e->plan->rows.input != 0;
}

// Its code is for whatever there is on a device.
static uint32_t features_of(const HostEmit *e)
{
    const Plan *p = e->plan;
    const bool has_file = e->taken->len != 0 || p->file != NULL || e->weights == WEIGHTS_FILE ||
                          e->weights == WEIGHTS_LOAD;
    bool has_checks = false;
    for (uint32_t i = 0; i < host_n_plans(p); i++)
        has_checks = has_checks || host_plan(p, i)->checks.len != 0;
    const uint32_t shapes = (has_symbols(e) ? HAS_SYMBOLS : 0) | (has_sizes(e) ? HAS_SIZES : 0) |
                            (host_n_held(e) != 0 ? HAS_HELD : 0);
    const uint32_t has = shapes | (shapes != 0 ? HAS_SHAPES : 0) |
                         (host_whole_state_bytes(e) != 0 ? HAS_STATE : 0) | (has_params(e) ? HAS_PARAMS : 0) |
                         (has_checks ? HAS_CHECKS : 0) | (has_file ? HAS_FILES : 0) |
                         (has_rows(e) ? HAS_ROWS : 0) | (host_has_banks(e) ? HAS_BANKS : 0);
    const bool has_more = p->sets.len != 0 || p->kept.len != 0 || host_is_parallel(e) || host_has_moe(e) ||
                          e->options->has_profile || e->options->has_tables || e->options->has_handles;
    return has_whole_api(e) || has_gpu(e) ? HAS_ALL : has == 0 && !has_more ? 0 : has | HAS_EXTRAS;
}

bool host_tells_errors(const HostEmit *e)
{
    return (features_of(e) & HAS_ERRORS) != 0;
}

bool host_checks_copied(const HostEmit *e)
{
    return (features_of(e) & (HAS_QUEUE | HAS_PARAMS)) != 0;
}

static bool has_calls(const HostEmit *e)
{
    return e->options->api != API_CORE;
}

// Else they are those of the descriptor, and outputs are read by rlx_output.
static bool has_shapes(const HostEmit *e)
{
    return (features_of(e) & HAS_SHAPES) != 0;
}

static bool has_weights(const HostEmit *e)
{
    return (features_of(e) & HAS_FILES) != 0;
}

static bool has_checks(const HostEmit *e)
{
    return (features_of(e) & HAS_CHECKS) != 0;
}

static bool has_values(const HostEmit *e)
{
    return has_whole_api(e) || has_params(e);
}

static bool has_states(const HostEmit *e)
{
    return has_whole_api(e) || e->plan->states.len != 0;
}

static bool has_sets(const HostEmit *e)
{
    return has_whole_api(e) || e->plan->sets.len != 0;
}

static bool has_devices(const HostEmit *e)
{
    return has_whole_api(e) || has_gpu(e);
}

static bool has_handles(const HostEmit *e)
{
    return has_whole_api(e) || e->options->has_handles;
}

static bool has_profile(const HostEmit *e)
{
    return has_whole_api(e) || e->options->has_profile || has_gpu(e);
}

static bool has_look(const HostEmit *e)
{
    return has_whole_api(e) || e->plan->kept.len != 0;
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

// Of parts that are not here only what others use is pasted.
static const struct {
    const char *file;
    bool (*is_needed)(const HostEmit *e);
} needs[] = {
    {"rlx_types.h", is_always},          {"rlx.h", is_always},
    {"rlx_run.h", is_always},            {"rlx_weights.h", has_weights},
    {"rlx_checks.h", has_checks},        {"rlx_times.h", has_whole_api},
    {"rlx_values.h", has_values},        {"rlx_states.h", has_states},
    {"rlx_shapes.h", has_shapes},        {"rlx_calls.h", has_calls},
    {"rlx_read.h", has_shapes},           {"rlx_sets.h", has_sets},
    {"rlx_symbols.h", has_symbols},      {"rlx_moe.h", host_has_moe},
    {"rlx_buckets.h", has_symbols},      {"rlx_parallel.h", host_is_parallel},
    {"rlx_threads.h", host_has_pool},    {"rlx_errors.h", has_whole_api},
    {"rlx_runs.h", has_whole_api},       {"rlx_devices.h", has_devices},
    {"rlx_links.h", has_whole_api},      {"rlx_handles.h", has_handles},
    {"rlx_profile.h", has_profile},      {"rlx_look.h", has_look},
    {"rlx_tables.h", has_tables},        {"rlx_typed.h", has_whole_api},
    {"rlx_params.h", has_whole_api},     {"rlx_gpu.h", has_gpu},
    {"rlx_moe_gpu.h", has_gpu_moe},      {"rlx_cuda_api.h", has_cuda},
    {"rlx_cuda_devices.h", has_cuda},    {"rlx_cuda_graph.h", has_cuda},
    {"rlx_cuda_nodes.h", has_cuda},      {"rlx_cuda_queue.h", has_cuda},
    {"rlx_cuda.h", has_cuda},            {"rlx_vulkan_api.h", has_vulkan},
    {"rlx_vulkan_device.h", has_vulkan}, {"rlx_vulkan_commands.h", has_vulkan},
    {"rlx_vulkan.h", has_vulkan},        {"rlx_metal_api.h", has_metal},
    {"rlx_metal.h", has_metal},          {"rlx_banks.h", host_has_banks},
    {"rlx_feed.h", has_rows},
};
enum { N_NEEDS = sizeof needs / sizeof *needs };

// Number of a part; n_runtime_parts: there is none.
static uint32_t find_part(const char *file, size_t n)
{
    uint32_t i = 0;
    while (i < n_runtime_parts &&
           (strncmp(runtime_parts[i].file, file, n) != 0 || runtime_parts[i].file[n] != '\0'))
        i++;
    return i;
}

// Does each header have it?
static bool is_everywhere(uint32_t part)
{
    uint32_t i = 0;
    while (strcmp(needs[i].file, runtime_parts[part].file) != 0)
        i++;
    return needs[i].is_needed == is_always;
}

static bool *find_parts(const HostEmit *e)
{
    bool *is_in = ARENA_ARRAY(e->arena, bool, n_runtime_parts);
    for (uint32_t i = 0; i < N_NEEDS; i++) {
        const uint32_t part = find_part(needs[i].file, strlen(needs[i].file));
        rlx_assert(part < n_runtime_parts);
        is_in[part] = needs[i].is_needed(e);
    }
    return is_in;
}

// Of the guard of a part, which is its first piece.
static const char *guard_line(uint32_t part, uint32_t i)
{
    return runtime_lines[runtime_pieces[runtime_parts[part].piece].line + i].text;
}

static const char include[] = "#include \"";

// Marks what these parts include, which stands before them.
static void add_included(bool *is_in)
{
    for (uint32_t i = n_runtime_parts; i-- > 0;)
        for (uint32_t k = 0; is_in[i] && k < runtime_pieces[runtime_parts[i].piece].n_lines; k++) {
            const char *line = guard_line(i, k);
            if (strncmp(line, include, sizeof include - 1) == 0)
                is_in[find_part(line + sizeof include - 1, strcspn(line + sizeof include - 1, "\""))] = true;
        }
}

bool host_runtime_part(Arena *a, uint32_t i, HostText *out)
{
    Str text = str_new(a);
    if (i >= n_runtime_parts)
        return false;
    host_paste_part(i, UINT32_MAX, NULL, &text);
    *out = (HostText){runtime_parts[i].file, str_text(&text)};
    return true;
}

HostText host_stubs(Arena *a)
{
    Str text = str_new(a);
    for (const char *const *line = stubs_text; *line != NULL; line++)
        str_add(&text, *line);
    return (HostText){"rlx_stubs.h", str_text(&text)};
}

void host_paste_runtime(Arena *a, const Map *files, Str *out)
{
    uint64_t unused;
    bool *is_in = ARENA_ARRAY(a, bool, n_runtime_parts);
    for (uint32_t i = 0; i < n_runtime_parts; i++)
        is_in[i] = map_get_str(files, runtime_parts[i].file, &unused);
    add_included(is_in);
    for (uint32_t i = 0; i < n_runtime_parts; i++)
        if (is_in[i])
            host_paste_part(i, HAS_ALL, include, out);
}

static const char other_model[] =
    "#error \"runtime-lite is here already, with less than this model needs: include the header of this "
    "model first, or compile all models of the program with --api full\"\n";

// With all lines, parts are those of any other model that has all: each is there once.
static void paste_whole(const HostEmit *e, Str *out)
{
    bool *is_in = find_parts(e);
    add_included(is_in);
    str_printf(out,
               "#ifndef RLX_FEATURES\n#define RLX_FEATURES 0x%xu\n#elif RLX_FEATURES != 0x%xu\n%s#endif\n",
               (unsigned)HAS_ALL, (unsigned)HAS_ALL, other_model);
    for (uint32_t i = 0; i < n_runtime_parts; i++)
        if (is_in[i])
            host_paste_part(i, HAS_ALL, include, out);
}

void host_emit_runtime(const HostEmit *e, Str *out)
{
    const uint32_t has = features_of(e);
    if (has == HAS_ALL) {
        paste_whole(e, out);
        return;
    }
    const bool *is_in = find_parts(e);
    const PasteWish wish = {.has = has, .parts = is_in, .texts = e->uses, .n_texts = 2};
    Str other = str_new(e->arena), end = str_new(e->arena);
    str_printf(out,
               "// What this model needs of runtime-lite (docs/REFERENCE.md); --api full has all calls.\n"
               "#ifndef RLX_FEATURES\n#define RLX_FEATURES 0x%xu\n#define RLX_RUNTIME_LITE_H\n",
               (unsigned)has);
    for (uint32_t i = 0; i < n_runtime_parts; i++) {
        const char *guard = guard_line(i, 1) + sizeof "#define";
        if (!is_in[i] || is_everywhere(i))
            continue;
        str_add(out, guard_line(i, 1));
        str_printf(&other, " || !defined(%.*s)", (int)strcspn(guard, "\n"), guard);
    }
    if (has != 0)
        str_printf(&other, " || (RLX_FEATURES & 0x%xu) != 0x%xu", (unsigned)has, (unsigned)has);
    if (other.len != 0)
        str_printf(&end, "#elif %s\n%s", str_text(&other) + strlen(" || "), other_model);
    host_paste_pieces(e->arena, &wish, out);
    str_printf(out, "\n%s#endif\n", str_text(&end));
}

void host_emit_runtime_file(const HostEmit *e, Str *out)
{
    str_add(out, "#if defined(__cplusplus) && defined(__GNUC__) && __INCLUDE_LEVEL__ > 0\n"
                 "#pragma GCC system_header // no warnings about casts and NULL as C has them\n#endif\n");
    host_emit_runtime(e, out);
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
    bool *is_in = find_parts(e);
    add_included(is_in);
    for (uint32_t i = 0; i < n_runtime_parts; i++)
        if (is_in[i])
            str_printf(out, "#include \"%s\"\n", runtime_parts[i].file);
    str_char(out, '\n');
}
