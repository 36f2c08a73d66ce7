// SPDX-License-Identifier: Apache-2.0
// Units of generated programs: rlxc in process, one C file of many programs, the system's compiler. See
// random_check.h.
//
// What a program defines as static, helpers and tables, would clash in a common file: these names get the
// program's name in front. All else stays as emitted.
#include "random_check.h"

#include "codegen/host/host.h"
#include "compiler/job/pipeline.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// --- one file of many ----------------------------------------------------------------------------

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void add_words(Arena *a, Map *names, const char *c)
{
    while (*c != '\0') {
        size_t n = 0;
        while (is_word(c[n]))
            n++;
        if (n > 0)
            map_put(a, names, c, n, 1);
        c += n > 0 ? n : 1;
    }
}

// The names that runtime-lite has: common to all programs.
static const Map *runtime_names(void)
{
    static Arena a;
    static Map names;
    if (names.len > 0)
        return &names;
    HostText text;
    for (uint32_t i = 0; host_runtime_part(&a, i, &text); i++)
        add_words(&a, &names, text.text);
    return &names;
}

static bool is_private(const char *word, size_t n, const Map *kernels)
{
    static const char *const tables[] = {"dispatch",    "dispatch_part",  "weights",        "inputs",
                                         "outputs",     "params",         "states",         "kernels",
                                         "state_init",  "param_has_init", "segments",       "schedule",
                                         "preparation", "prepare_part",   "first_segments", "prepare",
                                         "experts",     "expert_layers",  "expert_parts"};
    uint64_t unused;
    if (strncmp(word, "rlx_", 4) == 0)
        return !map_get(runtime_names(), word, n, &unused);
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strlen(tables[i]) == n && strncmp(word, tables[i], n) == 0)
            return true;
    return map_get(kernels, word, n, &unused);
}

// Length of a comment or a string at c, else 0.
static size_t skip_text(const char *c)
{
    size_t n = 1;
    if (c[0] == '/' && c[1] == '/')
        return strcspn(c, "\n");
    if (c[0] != '"')
        return 0;
    while (c[n] != '"')
        n += c[n] == '\\' ? 2 : 1;
    return n + 1;
}

static void add_renamed(Str *out, const char *text, const char *name, const Map *kernels)
{
    for (const char *c = text; *c != '\0';) {
        size_t n = skip_text(c);
        const bool is_member = c > text && (c[-1] == '>' || c[-1] == '.');
        if (n == 0 && (isalpha((unsigned char)*c) || *c == '_')) {
            while (is_word(c[n]))
                n++;
            if (!is_member && is_private(c, n, kernels))
                str_printf(out, "%s_", name);
        }
        while (n == 0 && isdigit((unsigned char)c[n])) // 0x1p3f is one word
            while (is_word(c[n]))
                n++;
        n = n == 0 ? 1 : n;
        str_add_n(out, c, n);
        c += n;
    }
}

typedef struct Names {
    Arena *arena;
    Map *map;
} Names;

static void add_name(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    const Names *names = ctx;
    (void)p;
    (void)times;
    map_put_str(names->arena, names->map, k->kernel->name, 1);
    for (uint32_t i = 0; i < k->threads.phases.len; i++)
        map_put_str(names->arena, names->map, k->threads.phases.data[i].kernel->name, 1);
}

static void add_files(Unit *u, const Emitted *out, const Plan *plan, const char *name)
{
    Map kernels = {0};
    Names names = {u->arena, &kernels};
    plan_walk(plan, add_name, &names);
    str_add_n(&u->text, out->files.data[0].data, out->files.data[0].len); // the header
    const char *text = out->files.data[1].data, *line = strstr(text, "#include \"");
    add_renamed(&u->text, strchr(line, '\n'), name, &kernels);
}

// --- rlxc ----------------------------------------------------------------------------------------

static const char *first_message(const Diag *d)
{
    return d->items.len > 0 ? d->items.data[0].message : "failed without a message";
}

const char *unit_add(Unit *u, const Sample *s, Config c)
{
    CpuInfo cpu;
    TargetCaps *caps = ARENA_NEW(u->arena, TargetCaps);
    const bool is_known = cpu_find(c.cpu, &cpu);
    rlx_assert(is_known);
    *caps = target_caps(target_find("c"), &cpu);
    caps->threads = c.threads;
    caps->split_cycles = 0;
    const PipelineOptions o = {.opt_level = c.opt_level,
                               .allow_fast = c.allow_fast,
                               .caps = caps,
                               .accuracy = c.accuracy,
                               .winograd = c.winograd,
                               .report = stderr};
    Plan *plan = NULL;
    const uint32_t n_nodes = s->g->nodes.len;
    Emitted out;
    const char *name = arena_printf(u->arena, "g%u", u->programs.len);
    const HostOptions host = {.name = name,
                              .compiler = "rlxc",
                              .cc_flags = cpu.cc_flags,
                              .cpu = cpu.name,
                              .weights = WEIGHTS_RODATA,
                              .is_one_file = true, // add_files takes a header and a C file
                              .parts = 1};
    Diag *d = s->g->diag;
    d->n_errors = 0;
    d->items.len = 0;
    if (!pipeline_run(u->arena, d, sample_copy(s), &o, &plan) ||
        !host_emit(u->arena, d, target_find("c"), plan, &host, &out))
        return arena_strdup(u->arena, first_message(d));
    rlx_assert(s->g->nodes.len == n_nodes);
    u->cc_flags = cpu.cc_flags;
    if (u->text.arena == NULL)
        u->text = str_new(u->arena);
    add_files(u, &out, plan, name);
    vec_push(u->arena, &u->programs, ((Program){s, c, name}));
    return NULL;
}

bool unit_build(Unit *u)
{
    char dir[] = "/tmp/rlxc_random_XXXXXX", command[512];
    if (u->programs.len == 0)
        return true;
    rlx_assert(mkdtemp(dir) != NULL);
    FILE *f = fopen(arena_printf(u->arena, "%s/unit.c", dir), "w");
    rlx_assert(f != NULL);
    fwrite(u->text.data, 1, u->text.len, f);
    fclose(f);
    const char *cc = getenv("CC");
    snprintf(command, sizeof command,
             "cd %s && %s %s -w -std=gnu99 %s -pthread -shared -fPIC -o unit.so unit.c -lm", dir,
             cc != NULL ? cc : "cc", u->level, u->cc_flags);
    if (system(command) == 0)
        u->library = dlopen(arena_printf(u->arena, "%s/unit.so", dir), RTLD_NOW | RTLD_LOCAL);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        fprintf(stderr, "%s stays behind\n", dir);
    return u->library != NULL;
}

void unit_close(Unit *u)
{
    if (u->library != NULL)
        dlclose(u->library);
}

// --- running -------------------------------------------------------------------------------------

// A block of NaN that ends, but for alignment, where memory ends: what reaches beyond it is a crash.
static unsigned char *map_block(size_t n, size_t *mapped)
{
    const size_t page = 4096, body = (n + page) / page * page;
    *mapped = body + page;
    unsigned char *p = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rlx_assert(p != MAP_FAILED && mprotect(p + body, page, PROT_NONE) == 0);
    memset(p, 0xff, body);
    return p + body - (n + 63) / 64 * 64;
}

static void unmap_block(unsigned char *p, size_t n, size_t mapped)
{
    munmap(p + (n + 63) / 64 * 64 + 4096 - mapped, mapped);
}

static NodeId state_next(const Graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->states.len; i++)
        if (str_equal(node_name(g, g->states.data[i].node), name))
            return g->states.data[i].next;
    return 0;
}

static Outcome compare_run(const rlx_ctx *ctx, const Reference *r, uint32_t run)
{
    const rlx_model *m = ctx->model;
    Arena *a = r->sample->arena;
    Outcome all = {0};
    for (uint32_t i = 0; i < m->n_outputs && all.message == NULL; i++) {
        const Outcome o =
            reference_compare(a, r, run, r->sample->g->outputs.data[i].node, rlx_output(ctx, i));
        all.needed_allowance |= o.needed_allowance;
        if (o.message != NULL)
            all.message = arena_printf(a, "run %u, output %s%s", run, m->outputs[i].name, o.message);
    }
    for (uint32_t i = 0; i < m->n_states && all.message == NULL; i++) {
        void *bytes = arena_alloc(a, m->states[i].bytes);
        if (rlx_read_state(ctx, m->states[i].name, bytes, m->states[i].bytes) != RLX_OK)
            return (Outcome){.message = "a state cannot be read"};
        const Outcome o = reference_compare(a, r, run, state_next(r->sample->g, m->states[i].name), bytes);
        all.needed_allowance |= o.needed_allowance;
        if (o.message != NULL)
            all.message = arena_printf(a, "run %u, state %s%s", run, m->states[i].name, o.message);
    }
    return all;
}

static Outcome check_runs(rlx_ctx *ctx, const Reference *r)
{
    const rlx_model *m = ctx->model;
    const void **inputs = ARENA_ARRAY(r->sample->arena, const void *, m->n_inputs + 1);
    Outcome all = {0};
    for (uint32_t run = 0; run < SAMPLE_RUNS && all.message == NULL; run++) {
        for (uint32_t i = 0; i < m->n_inputs; i++) {
            uint64_t v = 0;
            const bool is_known = map_get_str(&r->sample->values, m->inputs[i].name, &v);
            rlx_assert(is_known);
            inputs[i] = ((const Tensor *)(uintptr_t)v)[run].data;
        }
        const rlx_status status = rlx_run_slots(ctx, inputs, NULL);
        if (status != RLX_OK)
            return (Outcome){.message = rlx_status_text(status)};
        const Outcome o = compare_run(ctx, r, run);
        all.message = o.message;
        all.needed_allowance |= o.needed_allowance;
    }
    return all;
}

// What a segment needs of other parts must be there before it begins: then no order of them is wrong.
static void last_part_first(void *user, void (*task)(void *arg, size_t part), void *arg, size_t parts)
{
    (void)user;
    while (parts-- > 0)
        task(arg, parts);
}

Outcome model_check(const rlx_model *m, uint8_t threads, const Reference *r)
{
    size_t arena_mapped, state_mapped;
    unsigned char *arena = map_block(m->arena_bytes, &arena_mapped),
                  *state = map_block(m->state_bytes, &state_mapped);
    rlx_ctx ctx = {0};
    rlx_pool pool;
    rlx_status status = rlx_init(&ctx, m, arena, m->arena_bytes, state, m->state_bytes, NULL, 0);
    if (status == RLX_OK && threads % 2 != 0)
        status = rlx_set_parallel_for(&ctx, threads, last_part_first, NULL);
    else if (status == RLX_OK && threads != 0)
        status = rlx_threads_start(&ctx, &pool, threads);
    const Outcome o = status == RLX_OK ? check_runs(&ctx, r) : (Outcome){.message = rlx_status_text(status)};
    if (threads != 0)
        rlx_threads_stop(&ctx);
    if (m->device != NULL && ctx.model != NULL)
        rlx_close(&ctx);
    unmap_block(arena, m->arena_bytes, arena_mapped);
    unmap_block(state, m->state_bytes, state_mapped);
    return o;
}

Outcome program_check(const Unit *u, const Program *p, const Reference *r)
{
    const rlx_model *m = dlsym(u->library, arena_printf(u->arena, "%s_model", p->name));
    rlx_assert(m != NULL);
    return model_check(m, p->config.threads, r);
}
