// SPDX-License-Identifier: Apache-2.0
// Prints metal_selftest.c, one file that whoever has an Apple GPU compiles and runs:
//
//   clang metal_selftest.c -o metal_selftest && ./metal_selftest
//
// It holds op cases (tests/e2e/ops/*.rlx), compiled for Metal, with inputs and expected outputs: the smallest
// ones, until each op that Metal has is in some of them. With TEST_GPU=apple7 it is a file for GPUs of that
// family and later ones, with all cases that are given.
//
//   print_selftest MAIN OUT FILE.rlx...    MAIN: tests/metal/selftest_main.c, which runs them
#include "codegen/host/host_parts.h"
#include "gpu_cases.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_OF_OP = 2, MAX_BYTES = 1 << 16 };

static GpuCases cases = {.tolerance = {.f32 = 1e-5}};
static bool takes_all;

// --- which cases -----------------------------------------------------------------------------------

typedef struct Choice {
    const GpuJob *job;
    uint64_t bytes; // of inputs, outputs and constants
} Choice;

static bool is_plain(DType t)
{
    return t == DTYPE_f32 || t == DTYPE_f16 || t == DTYPE_bf16 || dtype_info[t].cls != DCLASS_FLOAT;
}

// Models with open sizes have more of a host's side than the test of an op needs.
static bool can_choose(const Plan *p)
{
    bool ok = p->page == 0 && p->params.len == 0 && p->sizes.len == 0 && p->checks.len == 0;
    ok = ok && p->outputs.len != 0;
    for (uint32_t i = 0; i < p->outputs.len && ok; i++)
        ok = is_plain(p->outputs.data[i].dtype);
    return ok;
}

static uint64_t size_of(const Plan *p)
{
    uint64_t n = plan_weight_bytes(p);
    for (uint32_t i = 0; i < p->inputs.len; i++)
        n += p->inputs.data[i].bytes;
    for (uint32_t i = 0; i < p->outputs.len; i++)
        n += p->outputs.data[i].bytes;
    return n;
}

static int by_size(const void *a, const void *b)
{
    const Choice *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->job < y->job ? -1 : 1;
}

static void find_ops(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)times;
    for (uint32_t i = 0; i < k->body.len; i++)
        ((bool *)ctx)[graph_node(p->graph, k->body.data[i])->op] = true;
}

// The ops of a case that are in too few so far, as text; NULL: none. Counts them.
static const char *new_ops(const Plan *p, uint32_t *count)
{
    bool has_op[OP_COUNT] = {false}, is_new = false;
    Str s = str_new(&cases.perm);
    plan_walk(p, find_ops, has_op);
    for (uint32_t op = 0; op < OP_COUNT; op++)
        is_new |= has_op[op] && (takes_all || count[op] < CASES_OF_OP);
    for (uint32_t op = 0; op < OP_COUNT && is_new; op++)
        if (has_op[op]) {
            str_printf(&s, "%s%s", s.len == 0 ? "" : " ", op_info[op].name);
            count[op]++;
        }
    return is_new ? str_text(&s) : NULL;
}

// --- a case ----------------------------------------------------------------------------------------

static bool keep_text(void *ctx, const char *text, const char *const *functions, uint32_t n, GpuImages *out)
{
    (void)ctx, (void)functions, (void)n;
    vec_push(&cases.perm, out, ((GpuImage){.label = "text", .data = text, .len = strlen(text) + 1}));
    return true;
}

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end != NULL ? end + 1 : at + strlen(at);
}

// "static const rlx_gpu_arg args[] = {": args.
static const char *static_name(const char *line)
{
    const char *end = line + strcspn(line, "[(={;\n");
    while (end > line && end[-1] == ' ')
        end--;
    const char *begin = end;
    while (begin > line && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_'))
        begin--;
    return arena_strndup(&cases.perm, begin, (size_t)(end - begin));
}

static Map includes; // parts of runtime-lite

static const char *include_name(const char *at)
{
    return arena_strndup(&cases.perm, at, strcspn(at, "\""));
}

// The end of the word, string, or single character that begins here.
static const char *next_token(const char *at)
{
    const char *end = at + 1;
    if (*at == '"') {
        while (*end != '\0' && *end != '\n' && *end != '"')
            end += *end == '\\' && end[1] != '\0' ? 2 : 1;
        return *end == '"' ? end + 1 : end;
    }
    if (isalnum((unsigned char)*at) || *at == '_')
        while (isalnum((unsigned char)*end) || *end == '_')
            end++;
    return end;
}

// A line with the words that are in `renamed` behind a prefix; members of structs keep their names.
static void print_line(const char *at, const char *end, const Map *renamed, const char *name, Str *out)
{
    for (char before = '\0'; at < end;) {
        const char *next = next_token(at);
        const char *word = arena_strndup(&cases.perm, at, (size_t)(next - at));
        if (before != '.' && before != '>' && map_get_str(renamed, word, NULL))
            str_printf(out, "%s_", name);
        str_printf(out, "%s", word);
        before = next[-1];
        at = next;
    }
}

// What is static has the same name in every model: it is renamed. Includes are for the head of the file.
static void print_piece(const char *text, const char *name, Str *out)
{
    static const char include[] = "#include \"";
    Map renamed = {0};
    for (const char *at = text; *at != '\0'; at = next_line(at))
        if (strncmp(at, "static ", 7) == 0)
            map_put_str(&cases.perm, &renamed, static_name(at), 1);
    for (const char *at = text; *at != '\0'; at = next_line(at))
        if (strncmp(at, include, strlen(include)) != 0)
            print_line(at, next_line(at), &renamed, name, out);
        else
            map_put_str(&cases.perm, &includes, include_name(at + strlen(include)), 1);
}

static void print_model(const GpuJob *j, const char *name, Str *out)
{
    Emitted emitted = {0};
    const HostOptions options = {.name = name,
                                 .compiler = "rlxc " RLXC_VERSION,
                                 .cc_flags = "",
                                 .cpu = "generic",
                                 .weights = WEIGHTS_RODATA,
                                 .runtime = RUNTIME_LINKED,
                                 .api = API_CORE,
                                 .compile_gpu = keep_text};
    Diag diag = diag_new(&cases.perm);
    rlx_assert(host_emit(&cases.perm, &diag, cases.target, j->plan, &options, &emitted));
    for (uint32_t pass = 0; pass < 2; pass++) // the header first
        for (uint32_t i = 0; i < emitted.files.len; i++) {
            const EmittedFile *f = &emitted.files.data[i];
            const char *end = f->name + strlen(f->name) - 2;
            if (strcmp(end, pass == 0 ? ".h" : ".c") == 0)
                print_piece(arena_strndup(&cases.perm, f->data, f->len), name, out);
        }
}

// As 64-bit words, the last one filled up.
static void print_bytes(const void *data, uint64_t bytes, Str *out)
{
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, (const char *)data + i, bytes - i < 8 ? (size_t)(bytes - i) : 8);
        str_printf(out, "0x%llxu,%s", (unsigned long long)word, i % 64 == 56 ? "\n" : " ");
    }
}

static const Tensor *input_value(const Reference *ref, uint32_t run, const char *name)
{
    for (uint32_t i = 0; i < ref->g->inputs.len; i++)
        if (str_equal(node_name(ref->g, ref->g->inputs.data[i]), name))
            return &ref->run[run].value[ref->g->inputs.data[i]];
    rlx_assert(!"an input without a value");
    return NULL;
}

static void print_data(const GpuJob *j, const char *name, Str *out)
{
    const Reference ref = ops_evaluate(&cases.perm, j->c);
    str_printf(out, "static const uint64_t %s_data[] = {\n", name);
    for (uint32_t run = 0; run < OPS_RUNS; run++) {
        for (uint32_t i = 0; i < j->plan->inputs.len; i++) {
            const PlanIo *io = &j->plan->inputs.data[i];
            print_bytes(input_value(&ref, run, io->name)->data, io->bytes, out);
        }
        for (uint32_t i = 0; i < j->plan->outputs.len; i++)
            print_bytes(ref.run[run].value[ref.g->outputs.data[i].node].data,
                        j->plan->outputs.data[i].bytes, out);
    }
    str_add(out, "0};\n");
}

// --- the file --------------------------------------------------------------------------------------

static uint32_t print_cases(Str *out)
{
    Choice *choice = ARENA_ARRAY(&cases.perm, Choice, cases.jobs.len + 1);
    Str table = str_new(&cases.perm);
    uint32_t n = 0, n_chosen = 0, count[OP_COUNT] = {0};
    for (uint32_t i = 0; i < cases.jobs.len; i++)
        if (gpu_job_runs(&cases.jobs.data[i]) && can_choose(cases.jobs.data[i].plan))
            choice[n++] = (Choice){&cases.jobs.data[i], size_of(cases.jobs.data[i].plan)};
    qsort(choice, n, sizeof *choice, by_size);
    for (uint32_t i = 0; i < n && (takes_all || choice[i].bytes <= MAX_BYTES); i++) {
        const char *ops = new_ops(choice[i].job->plan, count);
        if (ops == NULL)
            continue;
        const char *name = arena_printf(&cases.perm, "case%u", n_chosen++);
        print_model(choice[i].job, name, out);
        print_data(choice[i].job, name, out);
        str_printf(&table, "    {\"%s\", \"%s\", &%s_model, %s_data},\n", choice[i].job->c->name, ops,
                   name, name);
    }
    str_printf(out,
               "\ntypedef struct Case {\n    const char *name, *ops;\n    const rlx_model *model;\n"
               "    const uint64_t *data;\n} Case;\nstatic const Case cases[] = {\n%s};\n\n",
               str_text(&table));
    return n_chosen;
}

int main(int argc, char **argv)
{
    rlx_assert(argc > 3);
    Str out = str_new(&cases.perm);
    FILE *main_file = fopen(argv[1], "r"), *file = fopen(argv[2], "w");
    rlx_assert(main_file != NULL && file != NULL);
    takes_all = getenv("TEST_GPU") != NULL;
    str_add(&out, "// metal_selftest.c, made by rlxc " RLXC_VERSION
                  ": op cases with expected results, for an Apple GPU.\n"
                  "//   clang metal_selftest.c -o metal_selftest && ./metal_selftest\n");
    gpu_plan(&cases, "metal", 3, argv + 3, argc - 3);
    Str models = str_new(&cases.perm);
    const uint32_t n = print_cases(&models);
    host_paste_runtime(&cases.perm, &includes, &out);
    str_add(&out, str_text(&models));
    char line[256];
    while (fgets(line, sizeof line, main_file) != NULL)
        str_add(&out, line);
    fputs(str_text(&out), file);
    fprintf(stderr, "%u cases\n", n);
    return fclose(main_file) != 0 || fclose(file) != 0 || cases.n_failed != 0;
}
