// SPDX-License-Identifier: Apache-2.0
// See certificate.h.
#include "compiler/report/certificate.h"
#include "compiler/cli/cli_tables.h"
#include "compiler/report/certificate_costs.h"
#include "compiler/report/facts.h"
#include "compiler/report/inspect_banks.h"
#include "compiler/system/json_text.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/sha256.h"
#include <string.h>

typedef struct Content {
    const char *name, *sha256;
    uint64_t bytes;
} Content;
typedef VEC(Content) Contents;

typedef struct Setting {
    const char *option, *value;
} Setting;

typedef struct Cost {
    const char *name, *nodes;
    uint64_t macs, flops, bytes, times;
    const PlanKernel *kernel;
} Cost;

typedef struct Certificate {
    Arena *arena;
    const Job *job;
    const ValidateReport *report;
    Contents inputs, outputs;
    VEC(Setting) settings;
    VEC(Cost) kernels;
    CertificateCosts costs;
} Certificate;

// --- what it says --------------------------------------------------------------------------------

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool hash_inputs(Certificate *c)
{
    uint32_t n = 0;
    const ReadFile *read = rawfile_list_read(&n);
    for (uint32_t i = 0; i < n; i++) {
        Content in = {.name = base_name(read[i].path)};
        in.sha256 = sha256_file(c->arena, read[i].path, &in.bytes);
        const char *id = rawfile_id(c->arena, read[i].path);
        if (in.sha256 == NULL || id == NULL || strcmp(id, read[i].id) != 0)
            return diag_error(c->job->cli->diag, (Span){0}, E0001,
                              "--certify: %s changed while it was compiled", read[i].path);
        vec_push(c->arena, &c->inputs, in);
    }
    return true;
}

static bool add_piece(void *hash, const void *bytes, size_t n)
{
    sha256_add(hash, bytes, n);
    return true;
}

static void hash_outputs(Certificate *c)
{
    for (uint32_t i = 0; i < c->job->emitted.files.len; i++) {
        const EmittedFile *f = &c->job->emitted.files.data[i];
        Sha256 hash = sha256_new();
        host_stream(f, add_piece, &hash);
        const Content out = {f->name, sha256_text(c->arena, &hash), f->len};
        vec_push(c->arena, &c->outputs, out);
    }
}

// Without the folders that files are in: "x=@a/b.npy" is "x=@b.npy".
static const char *without_folder(Arena *a, const char *value)
{
    const char *slash = strrchr(value, '/');
    size_t keep = 0;
    if (slash == NULL)
        return value;
    for (size_t i = 0; value + i < slash; i++)
        keep = value[i] == '=' || value[i] == '@' ? i + 1 : keep;
    return arena_printf(a, "%.*s%s", (int)keep, value, slash + 1);
}

// Where files go, how messages look, and what asks for this certificate.
static bool is_left_out(const char *option)
{
    static const char *const others[] = {"-o",         "--depfile", "--cc-flags", "--cache",
                                         "--no-color", "--json",    "--validate", "--certify"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(option, others[i]) == 0)
            return true;
    return false;
}

static void list_settings(Certificate *c)
{
    for (uint32_t i = 0; i < option_count; i++) {
        uint32_t n = 0;
        const char *option = option_info[i].name;
        const char *const *values = option_values(&option_info[i], &c->job->cli->options, &n);
        for (uint32_t k = 0; k < n && !is_left_out(option); k++) {
            const Setting s = {option, without_folder(c->arena, values[k])};
            vec_push(c->arena, &c->settings, s);
        }
    }
}

static void add_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    Certificate *c = ctx;
    (void)p;
    const char *nodes = k->kernel->comment != NULL ? k->kernel->comment : "";
    const Cost cost = {k->kernel->name, nodes, k->macs, k->flops, plan_kernel_bytes(k), times, k};
    vec_push(c->arena, &c->kernels, cost);
}

static void list_kernels(Certificate *c)
{
    const PlanBuckets *b = c->job->plan->buckets;
    for (uint32_t i = 0; b != NULL && i < b->n; i++)
        plan_walk(b->plan[i], add_kernel, c);
    if (b == NULL)
        plan_walk(c->job->plan, add_kernel, c);
}

static uint64_t weights_in_program(const Job *j)
{
    const bool is_given = j->emitted.weights == WEIGHTS_FILE || j->emitted.weights == WEIGHTS_LOAD;
    return is_given ? 0 : j->emitted.weight_bytes;
}

// --- JSON ----------------------------------------------------------------------------------------

static void json_contents(Arena *a, const char *key, const Contents *list, Str *out)
{
    str_printf(out, "  \"%s\": [", key);
    for (uint32_t i = 0; i < list->len; i++)
        str_printf(out, "%s\n    {\"file\": \"%s\", \"bytes\": %llu, \"sha256\": \"%s\"}", i == 0 ? "" : ",",
                   json_text(a, list->data[i].name), (unsigned long long)list->data[i].bytes,
                   list->data[i].sha256);
    str_add(out, "],\n");
}

static void json_kernels(const Certificate *c, Str *out)
{
    str_add(out, "  \"kernels\": [");
    for (uint32_t i = 0; i < c->kernels.len; i++) {
        const Cost *k = &c->kernels.data[i];
        str_printf(out,
                   "%s\n    {\"name\": \"%s\", \"nodes\": \"%s\", \"macs\": %llu, \"operations\": %llu, "
                   "\"bytes\": %llu, \"times\": %llu",
                   i == 0 ? "" : ",", json_text(c->arena, k->name), json_text(c->arena, k->nodes),
                   (unsigned long long)k->macs, (unsigned long long)k->flops, (unsigned long long)k->bytes,
                   (unsigned long long)k->times);
        certificate_kernel_json(c->job, &c->costs, k->kernel, out);
        str_add(out, "}");
    }
    str_add(out, "]\n}\n");
}

static const char *print_json(const Certificate *c)
{
    Arena *a = c->arena;
    const Job *j = c->job;
    Str out = str_new(a);
    str_printf(&out, "{\n  \"certificate\": 1,\n  \"model\": \"%s\",\n  \"compiler\": \"%s\",\n",
               json_text(a, j->host.name), j->host.compiler);
    str_printf(&out, "  \"target\": \"%s\",\n  \"cpu\": \"%s\",\n  \"cc_flags\": \"%s\",\n  \"options\": [",
               j->target->name, j->cpu.name, json_text(a, j->host.cc_flags));
    for (uint32_t i = 0; i < c->settings.len; i++)
        str_printf(&out, "%s{\"option\": \"%s\", \"value\": \"%s\"}", i == 0 ? "" : ", ",
                   c->settings.data[i].option, json_text(a, c->settings.data[i].value));
    str_add(&out, "],\n");
    json_contents(a, "inputs", &c->inputs, &out);
    json_contents(a, "outputs", &c->outputs, &out);
    str_printf(&out, "  \"ram\": {\"arena_bytes\": %zu, \"state_bytes\": %zu},\n", j->emitted.arena_bytes,
               j->emitted.state_bytes);
    facts_schedule_json(j->plan, &out);
    inspect_banks_json(j->plan, &out);
    str_printf(&out, "  \"device_bytes\": %zu,\n", j->emitted.device_bytes);
    str_printf(&out, "  \"flash\": {\"weight_bytes\": %llu},\n", (unsigned long long)weights_in_program(j));
    certificate_costs_json(j, &c->costs, &out);
    str_printf(&out, "  \"validation\": %s,\n", validation_json(a, c->report));
    json_kernels(c, &out);
    return str_text(&out);
}

// --- text ----------------------------------------------------------------------------------------

static void text_contents(const char *title, const Contents *list, Str *out)
{
    str_printf(out, "\n%s\n", title);
    for (uint32_t i = 0; i < list->len; i++)
        str_printf(out, "  %s  %s (%llu bytes)\n", list->data[i].sha256, list->data[i].name,
                   (unsigned long long)list->data[i].bytes);
}

static void text_rules(const Certificate *c, Str *out)
{
    const ValidateReport *r = c->report;
    str_printf(out, "\nproven with %s\n", r->validator);
    for (int i = 0; i < RULE_COUNT; i++)
        str_printf(out, "  yes  %s\n", validate_rule_text((ValidateRule)i));
    str_printf(out, "\n%u functions, calls at most %u deep, %u assembler statements\n", r->n_functions,
               r->max_depth, r->n_asm);
    str_printf(out, "loops: %u with constant bounds, %u with bounds that stay, %u that wait for others\n",
               r->n_loops[LOOP_CONSTANT], r->n_loops[LOOP_VALUE], r->n_loops[LOOP_WAIT]);
    str_add(out, "functions of others:");
    for (uint32_t i = 0; i < r->externals.len; i++)
        str_printf(out, " %s", r->externals.data[i]);
    str_add(out, "\n\npointers that are called\n");
    for (uint32_t i = 0; i < r->pointers.len; i++)
        str_printf(out, "  %-28s %s\n", r->pointers.data[i].name, r->pointers.data[i].text);
    if (r->waits.len != 0)
        str_add(out, "\nexceptions\n");
    for (uint32_t i = 0; i < r->waits.len; i++)
        str_printf(out, "  %-28s %s\n", r->waits.data[i].name, r->waits.data[i].text);
    str_add(out, "\nstack, at most (bytes, without optimisation)\n");
    for (uint32_t i = 0; i < r->entries.len; i++)
        str_printf(out, "  %10llu  %s\n", (unsigned long long)r->entries.data[i].stack,
                   r->entries.data[i].path);
    str_printf(out, "  %10llu  all others\n", (unsigned long long)r->helper_stack);
}

static const char *print_text(const Certificate *c)
{
    const Job *j = c->job;
    Str out = str_new(c->arena);
    str_printf(&out, "Certificate of %s, generated by %s for --target %s --cpu %s\n", j->host.name,
               j->host.compiler, j->target->name, j->cpu.name);
    str_printf(&out, "C compiler's flags: %s\noptions:", j->host.cc_flags);
    for (uint32_t i = 0; i < c->settings.len; i++)
        str_printf(&out, " %s%s%s", c->settings.data[i].option, c->settings.data[i].value[0] ? " " : "",
                   c->settings.data[i].value);
    str_add(&out, "\n");
    text_contents("inputs (SHA-256)", &c->inputs, &out);
    text_contents("outputs (SHA-256)", &c->outputs, &out);
    text_rules(c, &out);
    str_printf(&out, "\nRAM: arena %zu bytes, state %zu bytes\n", j->emitted.arena_bytes,
               j->emitted.state_bytes);
    facts_schedule_text(j->plan, &out);
    inspect_banks_text(j->plan, &out);
    if (j->emitted.device_bytes != 0)
        str_printf(&out, "memory of the device: %zu bytes\n", j->emitted.device_bytes);
    str_printf(&out, "flash: weights %llu bytes, and the code, whose size the C compiler decides\n",
               (unsigned long long)weights_in_program(j));
    certificate_costs_text(j, &c->costs, &out);
    str_add(&out, "\nkernels\n        times          operations               bytes");
    if (c->costs.is_board)
        str_printf(&out, " %s       cycles", c->costs.run.unknown == NULL ? "instructions" : "   estimated");
    str_add(&out, "\n");
    for (uint32_t i = 0; i < c->kernels.len; i++) {
        const Cost *k = &c->kernels.data[i];
        str_printf(&out, "%13llu %19llu %19llu", (unsigned long long)k->times, (unsigned long long)k->flops,
                   (unsigned long long)k->bytes);
        certificate_kernel_text(j, &c->costs, k->kernel, &out);
        str_printf(&out, "  %s\n", k->name);
    }
    return str_text(&out);
}

bool certificate_add(Job *j, const ValidateReport *r)
{
    Arena *a = j->cli->arena;
    Certificate c = {.arena = a, .job = j, .report = r};
    rlx_assert(r->findings.len == 0 && r->has_cxx); // every rule is said to be proven
    if (!hash_inputs(&c))
        return false;
    hash_outputs(&c);
    list_settings(&c);
    list_kernels(&c);
    c.costs = certificate_costs(j);
    const char *texts[] = {print_json(&c), print_text(&c)}, *suffixes[] = {"json", "txt"};
    for (size_t i = 0; i < 2; i++) {
        const EmittedFile f = {.name = arena_printf(a, "%s.certificate.%s", j->host.name, suffixes[i]),
                               .data = texts[i],
                               .len = strlen(texts[i])};
        vec_push(a, &j->emitted.files, f);
    }
    return true;
}
