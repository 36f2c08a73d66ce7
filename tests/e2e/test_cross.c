// SPDX-License-Identifier: Apache-2.0
// Emitted code of other machines: models are compiled for a --cpu, built with a cross compiler into one
// program, run under qemu-user, and compared with the reference evaluator. Cases are every n-th of the op
// cases, other ones each day, and the given models.
//
//   test_cross [--every N] CPU EMULATOR COMPILER FILE...     op cases (.rlx) and models (.json); prints TAP
//
// Skipped (77) where compiler or emulator are missing.
#include "../common/rotation.h"
#include "base/str.h"
#include "compiler/job/pipeline.h"
#include "compiler/native/native.h"
#include "ir/eval/eval.h"
#include "ops_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS = 2, SKIPPED = 77, PER_PROGRAM = 40, COMPILERS = 2 };
static const double tolerance = 1e-5, narrow_tolerance = 2e-2; // of the largest magnitude

typedef struct Case {
    const char *name, *path;
} Case;

typedef struct Model {
    const Case *c;
    uint32_t number;
    Graph *graph; // bound
    EvalRun run[RUNS];
    const Plan *plan;
} Model;

static Arena perm;
static VEC(Case) cases;
static VEC(Model) models;
static const char *cpu, *emulator, *compiler, *dir;
static int n_tests, n_failed;

static void result(bool ok, const char *name, const char *why)
{
    n_tests++;
    n_failed += !ok;
    printf("%sok %d - %s %s%s%s\n", ok ? "" : "not ", n_tests, name, cpu, why[0] != '\0' ? " # " : "", why);
    fflush(stdout);
}

static bool exists(const char *command)
{
    const int n = (int)strcspn(command, " ");
    return system(arena_printf(&perm, "command -v %.*s >/dev/null 2>&1", n, command)) == 0;
}

// --- cases ---------------------------------------------------------------------------------------

// A case is a file of its own for the compiler.
static void add_file(const char *path, uint32_t every)
{
    static uint32_t number;
    OpsCases ops = {0};
    if (!str_ends_with(path, ".rlx")) {
        vec_push(&perm, &cases, ((Case){path, path}));
        return;
    }
    ops_read_cases(&perm, path, getenv("TEST_OPS"), &ops);
    for (uint32_t i = test_rotation() % every; i < ops.len; i += every) {
        const Case c = {ops.data[i].name, arena_printf(&perm, "%s/case%u.rlx", dir, number++)};
        FILE *f = fopen(c.path, "w");
        rlx_assert(f != NULL);
        fputs(ops_text(&perm, &ops.data[i]), f);
        fclose(f);
        vec_push(&perm, &cases, c);
    }
}

// --- compiling -----------------------------------------------------------------------------------

// The evaluator's results of a case; false: it has no inputs of its own to run with.
static bool evaluate(Job *j, Model *m)
{
    if (!pipeline_bind(j->graph, &j->pipeline, &m->graph))
        return false;
    const Graph *g = m->graph;
    for (uint32_t r = 0; r < RUNS; r++) {
        m->run[r] = eval_begin(g, &perm, (DimValues){0});
        for (uint32_t k = 0; k < g->inputs.len; k++)
            m->run[r].value[g->inputs.data[k]] = ops_random_tensor(&perm, g, g->inputs.data[k], r + 1);
        for (uint32_t k = 0; r > 0 && k < g->states.len; k++)
            m->run[r].value[g->states.data[k].node] = m->run[r - 1].value[g->states.data[k].next];
        if (!eval_graph(&m->run[r]))
            return false;
    }
    return true;
}

static void emit_case(const Case *c)
{
    Diag *diag = ARENA_NEW(&perm, Diag);
    Cli *cli = ARENA_NEW(&perm, Cli);
    Job *j = ARENA_NEW(&perm, Job);
    Model m = {.c = c, .number = models.len};
    *diag = diag_new(&perm);
    *cli = (Cli){.arena = &perm, .diag = diag};
    cli->options.cpu = cpu;
    cli->options.api = "full"; // a program has many models
    cli->options.name = arena_printf(&perm, "m%u", m.number);
    vec_push(&perm, &cli->options.args, c->path);
    const bool ok =
        job_begin(j, cli, cpu, false) && job_plan(j) && job_emit(j) && job_write(j, dir) && evaluate(j, &m);
    m.plan = j->plan;
    if (!ok) {
        diag_print(diag, stderr, DIAG_PLAIN);
        result(false, c->name, "cannot be compiled or evaluated");
        return;
    }
    vec_push(&perm, &models, m);
}

// Reads the inputs of every run from stdin and writes the outputs to stdout, model by model.
static const char main_text[] =
    "static unsigned char *block(size_t n)\n{\n"
    "    char *p = malloc(n + 128);\n    return (unsigned char *)p + (64 - (size_t)p % 64);\n}\n"
    "static int run(const rlx_model *m)\n{\n"
    "    rlx_ctx c;\n    unsigned char *arena = block(m->arena_bytes);\n"
    "    unsigned char *state = block(m->state_bytes);\n"
    "    const void *in[64];\n    memset(arena, 255, m->arena_bytes);\n"
    "    if (rlx_init(&c, m, arena, m->arena_bytes, state, m->state_bytes, NULL, 0) != RLX_OK)\n        "
    "return 1;\n"
    "    for (int r = 0; r < RUNS; r++) {\n"
    "        for (unsigned i = 0; i < m->n_inputs; i++) {\n"
    "            void *p = malloc(m->inputs[i].bytes + 1);\n"
    "            if (fread(p, 1, m->inputs[i].bytes, stdin) != m->inputs[i].bytes)\n                return "
    "2;\n"
    "            in[i] = p;\n        }\n"
    "        if (rlx_run_slots(&c, in, NULL) != RLX_OK)\n            return 3;\n"
    "        for (unsigned i = 0; i < m->n_outputs; i++)\n"
    "            fwrite(arena + m->outputs[i].offset, 1, m->outputs[i].bytes, stdout);\n"
    "    }\n    return 0;\n}\n";

static void write_program(uint32_t first, uint32_t end)
{
    FILE *main_file = fopen(arena_printf(&perm, "%s/main%u.c", dir, first), "w");
    FILE *in = fopen(arena_printf(&perm, "%s/in%u", dir, first), "wb");
    rlx_assert(main_file != NULL && in != NULL);
    fprintf(main_file, "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nenum { RUNS = %d };\n",
            RUNS);
    for (uint32_t i = first; i < end; i++)
        fprintf(main_file, "#include \"m%u.h\"\n", models.data[i].number);
    fprintf(main_file, "%sint main(void)\n{\n    int bad = 0;\n", main_text);
    for (uint32_t i = first; i < end; i++) {
        const Model *m = &models.data[i];
        fprintf(main_file, "    bad = bad ? bad : run(&m%u_model);\n", m->number);
        for (uint32_t r = 0; r < RUNS; r++)
            for (uint32_t k = 0; k < m->plan->inputs.len; k++)
                fwrite(m->run[r].value[m->graph->inputs.data[k]].data, 1, m->plan->inputs.data[k].bytes, in);
    }
    fprintf(main_file, "    return bad;\n}\n");
    fclose(main_file);
    fclose(in);
}

// Models and main of a program, two compilers at a time.
static bool build_program(uint32_t first, uint32_t end)
{
    Str list = str_new(&perm);
    for (uint32_t i = first; i < end; i++)
        str_printf(&list, "m%u\\n", models.data[i].number);
    const char *command = arena_printf(&perm,
                                       "cd %s && printf 'main%u\\n%s' | xargs -P %d -I F %s -std=gnu99 -O1 "
                                       "-Wall -Wextra -Werror -c F.c -o F.o && "
                                       "%s -static -o p%u main%u.o $(printf '%s' | sed 's/$/.o/') -lm",
                                       dir, first, str_text(&list), COMPILERS, compiler, compiler, first,
                                       first, str_text(&list));
    return system(command) == 0;
}

// --- comparing -----------------------------------------------------------------------------------

static const char *compare(const Tensor *want, const void *bytes)
{
    Tensor got = *want;
    memcpy(&got.data, &bytes, sizeof bytes);
    const bool is_float = dtype_info[want->dtype].cls == DCLASS_FLOAT;
    double largest = 1e-30,
           allowed = want->dtype == DTYPE_f32 || want->dtype == DTYPE_f64 ? tolerance : narrow_tolerance;
    for (int64_t i = 0; is_float && i < want->numel; i++)
        if (isfinite(tensor_get_f64(want, i)))
            largest = fmax(largest, fabs(tensor_get_f64(want, i)));
    for (int64_t i = 0; i < want->numel; i++) {
        const double a = tensor_get_f64(&got, i), b = tensor_get_f64(want, i);
        const bool is_same =
            a == b || (isnan(a) && isnan(b)) || (is_float && fabs(a - b) <= allowed * largest);
        if (!is_same)
            return arena_printf(&perm, "element %lld is %.9g, expected %.9g", (long long)i, a, b);
    }
    return "";
}

static const char *check_model(const Model *m, FILE *out)
{
    const char *wrong = "";
    for (uint32_t r = 0; r < RUNS; r++)
        for (uint32_t k = 0; k < m->plan->outputs.len; k++) {
            const PlanIo *io = &m->plan->outputs.data[k];
            char *bytes = arena_alloc(&perm, io->bytes + 1);
            if (fread(bytes, 1, io->bytes, out) != io->bytes)
                return "ended early";
            // Outputs whose size the run computes are not compared here: their unused rest is undefined.
            if (wrong[0] == '\0' && io->sizes == 0)
                wrong = compare(&m->run[r].value[m->graph->outputs.data[k].node], bytes);
        }
    return wrong;
}

static void run_program(uint32_t first, uint32_t end)
{
    const char *out = arena_printf(&perm, "%s/out%u", dir, first);
    const char *command =
        arena_printf(&perm, "timeout 120 %s %s/p%u <%s/in%u >%s", emulator, dir, first, dir, first, out);
    const int status = system(command);
    FILE *f = fopen(out, "rb");
    rlx_assert(f != NULL);
    for (uint32_t i = first; i < end; i++) {
        const char *wrong = check_model(&models.data[i], f);
        result(wrong[0] == '\0', models.data[i].c->name, wrong);
    }
    fclose(f);
    if (status != 0)
        result(false, "program", arena_printf(&perm, "ended with status %d", WEXITSTATUS(status)));
}

int main(int argc, char **argv)
{
    char name[] = "/tmp/rlxc_cross_XXXXXX";
    const bool has_every = argc > 2 && strcmp(argv[1], "--every") == 0;
    const uint32_t every = has_every ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    const int first = has_every ? 3 : 1;
    rlx_assert(argc > first + 3 && every > 0);
    cpu = argv[first];
    emulator = argv[first + 1];
    compiler = argv[first + 2];
    if (!exists(emulator) || !exists(compiler)) {
        printf("1..0 # SKIP %s or %s is not installed (tools/setup does it)\n", emulator, compiler);
        fprintf(stderr, "SKIPPED: --cpu %s: %s or %s is not installed (tools/setup does it)\n", cpu, emulator,
                compiler);
        return SKIPPED;
    }
    dir = mkdtemp(name);
    rlx_assert(dir != NULL);
    for (int i = first + 3; i < argc; i++)
        add_file(argv[i], every);
    for (uint32_t i = 0; i < cases.len; i++)
        emit_case(&cases.data[i]);
    for (uint32_t i = 0; i < models.len; i += PER_PROGRAM) {
        const uint32_t end = i + PER_PROGRAM < models.len ? i + PER_PROGRAM : models.len;
        write_program(i, end);
        if (build_program(i, end))
            run_program(i, end);
        else
            result(false, "program", "does not compile");
    }
    printf("1..%d\n", n_tests);
    if (getenv("KEEP") == NULL && system(arena_printf(&perm, "rm -rf %s", dir)) != 0)
        fprintf(stderr, "%s stays behind\n", dir);
    return n_failed == 0 && n_tests > 0 ? 0 : 1;
}
