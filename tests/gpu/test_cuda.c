// SPDX-License-Identifier: Apache-2.0
// Every op as CUDA: the op cases (tests/e2e/ops/*.rlx) are lowered for CUDA and emitted as users get them.
//
//   test_cuda kernels FILE.rlx...   compiles kernels to cubins with NVRTC: a part of them that changes from
//   day to
//                                   day (ops_is_sampled); no GPU is needed
//   test_cuda host FILE.rlx...      some cases: the host code compiles without a warning as C99 and C++, and
//                                   where there is no driver it says so and changes nothing
//   test_cuda device FILE.rlx...    runs all cases on the GPU of this machine (RLXC_GPU: its name for NVRTC,
//                                   default sm_90a), in memory that is full of NaN before, and compares with
//                                   the reference evaluator; says at the end how many cases of each op are
//                                   right
//
// TEST_OPS=text: only cases whose name contains the text, TEST_OPS==name: one. TEST_NOT=FILE: but those whose
// names are lines of the file. TEST_SPOIL=0: memory is not filled before. Prints TAP; 77: what is needed is
// missing here.
#include "../common/kept.h"
#include "../e2e/ops_check.h"
#include "base/map.h"
#include "codegen/host/host.h"
#include "compiler/images/nvrtc.h"
#include "passes/graph/driver.h"
#include "runtime-lite/rlx_cuda.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CASES_PER_UNIT = 40,
    KERNELS_ONE_OF = 12,
    HOST_EVERY = 40,
    HOST_ONE_OF = 4,
    SKIPPED = 77,
    SECONDS_A_CASE = 60,
    MAX_WORKERS = 64
};
#define WARNINGS "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror "
static const uint64_t place_budget = 20000;

static Arena perm;
static OpsCases cases;
static TargetCaps caps;
static PassOptions options;
static const char *dir;
static uint32_t n_failed, n_kept;
static Kept kept; // texts that NVRTC has compiled before

static void result(bool ok, uint32_t number, const char *name, const char *why)
{
    n_failed += !ok;
    printf("%s %u - %s%s%s\n", ok ? "ok" : "not ok", number, name, why[0] != '\0' ? " # " : "", why);
    fflush(stdout);
}

// --- planning and emitting -------------------------------------------------------------------------

static Plan *plan_case(Arena *a, const OpsCase *c)
{
    Arena scratch = {0};
    options.accuracy = ops_unit_accuracy(c);
    Graph *g = ops_parse(a, c);
    Pass p = {.perm = a, .scratch = &scratch, .diag = g->diag, .options = &options, .graph = g};
    pass_run_all(&p);
    arena_free(&scratch);
    if (!p.failed)
        return p.plan;
    diag_print(g->diag, stderr, DIAG_PLAIN);
    return NULL;
}

static void find_lack(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    const char **lacks = ctx;
    (void)p, (void)times;
    if (k->loop == NULL && *lacks == NULL)
        *lacks = target_lacks(&target_cuda, k->kernel);
}

static bool write_file(const char *path, const EmittedFile *f)
{
    FILE *out = fopen(path, "w");
    return out != NULL && fwrite(f->data, 1, f->len, out) == f->len && fclose(out) == 0;
}

// DIR/mN.h, mN.c, mN.cu. gpus: NULL = text only.
static bool emit_case(Arena *a, uint32_t number, const NvrtcGpus *gpus)
{
    Diag d = diag_new(a);
    Nvrtc nvrtc = {.arena = a, .diag = &d};
    Plan *p = plan_case(a, &cases.data[number]);
    const HostOptions o = {.name = arena_printf(a, "m%u", number),
                           .compiler = "test",
                           .cc_flags = "",
                           .cpu = "generic",
                           .weights = WEIGHTS_RODATA,
                           .compile_gpu = nvrtc_compile,
                           .compile_gpu_ctx = &nvrtc};
    Emitted e;
    if (gpus != NULL)
        nvrtc.gpus = *gpus;
    bool ok = p != NULL && host_emit(a, &d, &target_cuda, p, &o, &e);
    for (uint32_t i = 0; ok && i < e.files.len; i++)
        ok = write_file(arena_printf(a, "%s/%s", dir, e.files.data[i].name), &e.files.data[i]);
    diag_print(&d, stderr, DIAG_PLAIN);
    return ok;
}

static bool run_command(const char *command)
{
    return system(command) == 0;
}

static const char *compiler(void)
{
    const char *cc = getenv("CC");
    return cc != NULL && cc[0] != '\0' ? cc : "cc";
}

// --- kernels ---------------------------------------------------------------------------------------

typedef struct Printer {
    Arena *arena;
    Str *out;
    uint32_t n;
    Map *seen; // {hash, length} of texts, with one name for all
} Printer;

// Whether another kernel of this GPU has the same text: each is compiled once.
static bool has_text(Printer *t, Kernel *k)
{
    Str text = str_new(t->arena);
    const char *name = k->name;
    k->name = "same";
    cfamily_print_kernel(&target_cuda, k, &text);
    k->name = name;
    const uint64_t key[] = {hash_bytes64(str_text(&text), text.len, 0), text.len};
    return !map_put(&perm, t->seen, key, sizeof key, 0);
}

static void print_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    Printer *t = ctx;
    (void)p, (void)times;
    if (k->loop != NULL)
        return;
    if (has_text(t, k->kernel))
        return;
    k->kernel->name = arena_printf(t->arena, "c%u_%s", t->n++, k->kernel->name);
    cfamily_print_kernel(&target_cuda, k->kernel, t->out);
}

// The kernels of some cases as one program.
static bool compile_unit(uint32_t first, uint32_t end, const char *gpu, Map *seen, uint32_t *n_kernels)
{
    Arena a = {0};
    Diag d = diag_new(&a);
    Nvrtc nvrtc = {.arena = &a, .diag = &d};
    GpuImages images = {0};
    Str body = str_new(&a), all = str_new(&a);
    Printer t = {&a, &body, 0, seen};
    bool ok = nvrtc_read_gpus(&a, gpu, &nvrtc.gpus);
    for (uint32_t i = first; i < end; i++) {
        const Plan *p = plan_case(&a, &cases.data[i]);
        const char *lacks = NULL;
        if (p != NULL)
            plan_walk(p, find_lack, &lacks);
        if (lacks != NULL)
            fprintf(stderr, "%s: %s\n", cases.data[i].name, lacks);
        ok = ok && p != NULL && lacks == NULL;
        if (p != NULL)
            plan_walk(p, print_kernel, &t);
    }
    target_print_prelude(&target_cuda, str_text(&body), &all);
    str_add(&all, str_text(&body));
    const uint64_t key[] = {hash_bytes64(str_text(&all), all.len, 0),
                            hash_bytes64(gpu, strlen(gpu), all.len)};
    const bool is_kept = ok && kept_has(&kept, key);
    n_kept += is_kept;
    if (ok && !is_kept) {
        ok = nvrtc_compile(&nvrtc, str_text(&all), NULL, 0, &images) && images.len == 2 &&
             images.data[0].len > 0;
        if (ok)
            kept_put(&kept, key, 1);
    }
    diag_print(&d, stderr, DIAG_PLAIN);
    *n_kernels += t.n;
    arena_free(&a);
    return ok;
}

static bool has_nvrtc(void)
{
    Diag d = diag_new(&perm);
    Nvrtc nvrtc = {.arena = &perm, .diag = &d};
    GpuImages images = {0};
    static const char text[] = "extern \"C\" __global__ void k(int *p) { *p = 1; }\n";
    return nvrtc_read_gpus(&perm, "sm_80", &nvrtc.gpus) && nvrtc_compile(&nvrtc, text, NULL, 0, &images);
}

static int test_kernels(void)
{
    const uint32_t n = (cases.len + CASES_PER_UNIT - 1) / CASES_PER_UNIT;
    uint32_t n_kernels = 0;
    Map seen[2] = {{0}};
    if (!has_nvrtc()) {
        printf("1..0 # SKIP no NVRTC (tools/setup installs it)\n");
        return SKIPPED;
    }
    kept_open(&kept, "cuda_kernels", "UNCHANGED_BUT_PASSES"); // the options are in compiler/
    printf("1..%u\n", n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t end = (i + 1) * CASES_PER_UNIT < cases.len ? (i + 1) * CASES_PER_UNIT : cases.len;
        const char *gpu = i % 2 ? "sm_90a" : "sm_80";
        result(compile_unit(i * CASES_PER_UNIT, end, gpu, &seen[i % 2], &n_kernels), i + 1, gpu, "");
    }
    printf("# %u cases, %u kernels, %u units failed\n", cases.len, n_kernels, n_failed);
    kept_say(n_kept);
    return n_failed != 0;
}

// --- a model of a case -----------------------------------------------------------------------------

typedef struct Model {
    const rlx_model *model;
    rlx_ctx ctx;
    unsigned char *arena, *state;
} Model;

static unsigned char *make_block(Arena *a, size_t n)
{
    unsigned char *p = arena_alloc(a, n + 2 * RLX_ALIGNMENT);
    p += (RLX_ALIGNMENT - (uintptr_t)p % RLX_ALIGNMENT) % RLX_ALIGNMENT;
    memset(p, 0xff, n);
    return p;
}

static bool load_model(Arena *a, uint32_t number, Model *m)
{
    void *library = dlopen(arena_printf(a, "%s/m%u.so", dir, number), RTLD_NOW | RTLD_LOCAL);
    *m = (Model){.model = library != NULL ? dlsym(library, arena_printf(a, "m%u_model", number)) : NULL};
    if (m->model == NULL)
        return false;
    m->arena = make_block(a, m->model->arena_bytes);
    m->state = make_block(a, m->model->state_bytes);
    return true;
}

static rlx_status begin_model(Model *m)
{
    return rlx_init(&m->ctx, m->model, m->arena, m->model->arena_bytes, m->state, m->model->state_bytes, NULL,
                    0);
}

// --- host ------------------------------------------------------------------------------------------

static bool is_untouched(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0xff)
            return false;
    return true;
}

static const char *check_host(Arena *a, uint32_t number)
{
    Model m;
    if (!emit_case(a, number, NULL))
        return "it is not emitted";
    if (!run_command(arena_printf(a, "cd %s && %s -std=c99 -O1 " WARNINGS "-shared -fPIC -o m%u.so m%u.c",
                                  dir, compiler(), number, number)))
        return "it does not compile as C99";
    if (!run_command(
            arena_printf(a, "cd %s && c++ -x c++ -std=c++11 " WARNINGS "-fsyntax-only m%u.c", dir, number)))
        return "it does not compile as C++";
    if (!load_model(a, number, &m))
        return "it does not load";
    const rlx_ctx before = m.ctx;
    const rlx_status status = begin_model(&m); // no code for any GPU is in it
    if (status != RLX_ERR_NO_DEVICE)
        return arena_printf(a, "its status is: %s", rlx_status_text(status));
    return memcmp(&before, &m.ctx, sizeof before) == 0 && is_untouched(m.arena, m.model->arena_bytes) &&
                   is_untouched(m.state, m.model->state_bytes)
               ? ""
               : "it has changed something";
}

static int test_host(void)
{
    VEC(uint32_t) chosen = {0};
    for (uint32_t i = 0; i < cases.len; i += HOST_EVERY)
        if (ops_is_sampled(i / HOST_EVERY, HOST_ONE_OF, 0))
            vec_push(&perm, &chosen, i);
    printf("1..%u\n", chosen.len);
    ops_say_sample(HOST_ONE_OF);
    for (uint32_t i = 0; i < chosen.len; i++) {
        Arena a = {0};
        const char *wrong = check_host(&a, chosen.data[i]);
        result(wrong[0] == '\0', i + 1, cases.data[chosen.data[i]].name, wrong);
        arena_free(&a);
    }
    return n_failed != 0;
}

// --- device ----------------------------------------------------------------------------------------

static void build_case(uint32_t number, const NvrtcGpus *gpus)
{
    Arena a = {0};
    if (emit_case(&a, number, gpus) &&
        !run_command(arena_printf(&a, "cd %s && %s -O0 -w -shared -fPIC -o m%u.so m%u.c", dir, compiler(),
                                  number, number)))
        fprintf(stderr, "the C compiler failed on m%u\n", number);
    arena_free(&a);
}

// All cases, by as many processes as there are processors.
static void build_all(const NvrtcGpus *gpus)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t n = cores < 1 ? 1 : cores > MAX_WORKERS ? MAX_WORKERS : (uint32_t)cores;
    fflush(stdout);
    for (uint32_t w = 0; w < n; w++) {
        if (fork() != 0)
            continue;
        for (uint32_t i = w; i < cases.len; i += n)
            build_case(i, gpus);
        _exit(0);
    }
    while (wait(NULL) > 0) {
    }
}

// The arena of the device, full of NaN.
static rlx_status spoil_arena(const Model *m)
{
    rlx_cuda *c = rlx_cuda_of(&m->ctx);
    void *before;
    if (c->api.push(c->context) != 0)
        return RLX_ERR_DEVICE;
    const int code = c->api.fill(c->memory, 0xff, (size_t)c->program->state, c->stream);
    c->api.pop(&before);
    return code == 0 ? RLX_OK : RLX_ERR_DEVICE;
}

// Inputs, outputs and states where ops_check.h looks for them.
static Memory memory_of(Arena *a, const Model *m, const Plan *p)
{
    const rlx_model *d = m->ctx.model;
    Memory out = {.n = p->buffers.len, .buffer = ARENA_ARRAY(a, char *, p->buffers.len)};
    for (uint32_t i = 0; i < p->inputs.len; i++)
        out.buffer[p->inputs.data[i].buf] =
            (char *)m->arena + d->inputs[i].offset - p->inputs.data[i].byte_offset;
    for (uint32_t i = 0; i < p->outputs.len; i++)
        out.buffer[p->outputs.data[i].buf] =
            (char *)m->arena + d->outputs[i].offset - p->outputs.data[i].byte_offset;
    for (uint32_t i = 0; i < p->states.len; i++)
        out.buffer[p->states.data[i].buf] =
            (char *)m->state + d->states[i].offset - p->states.data[i].byte_offset;
    return out;
}

static bool spoils = true;

// tolerance: of f32
static const char *run_case(Arena *a, Model *m, const Plan *p, const Reference *ref, double tolerance,
                            rlx_status *status)
{
    Memory memory = memory_of(a, m, p);
    const char *wrong = NULL;
    for (uint32_t run = 0; run < OPS_RUNS && wrong == NULL; run++) {
        ops_set_inputs(p, &memory, ref, run);
        *status = spoils ? spoil_arena(m) : RLX_OK;
        if (*status == RLX_OK)
            *status = rlx_run(&m->ctx);
        for (uint32_t i = 0; i < p->states.len && *status == RLX_OK; i++)
            *status = rlx_get_state(&m->ctx, m->model->states[i].offset, m->model->states[i].bytes);
        wrong = *status != RLX_OK
                    ? rlx_status_text(*status)
                    : ops_check_results(a, p, &memory, ref, run, (OpsTolerance){.f32 = tolerance});
    }
    return wrong;
}

// One line for the parent. False: the device is of no use to this process any more.
static bool check_case(uint32_t number, FILE *out)
{
    Arena a = {0};
    Model m;
    const Plan *p = plan_case(&a, &cases.data[number]);
    rlx_status status = RLX_OK;
    const char *wrong = "it was not built";
    alarm(SECONDS_A_CASE);
    if (p != NULL && load_model(&a, number, &m)) {
        const Reference ref = ops_evaluate(&a, &cases.data[number]);
        const OpsCase *c = &cases.data[number];
        const double tolerance = fmax(ops_unit_accuracy(c), ops_unit_tolerance(c));
        status = begin_model(&m);
        wrong = status == RLX_OK ? run_case(&a, &m, p, &ref, tolerance, &status) : rlx_status_text(status);
        if (status == RLX_OK)
            rlx_close(&m.ctx);
    }
    alarm(0);
    fprintf(out, "%u %s\n", number, wrong != NULL ? wrong : "");
    fflush(out);
    arena_free(&a);
    return status != RLX_ERR_DEVICE;
}

static const char **verdict; // by case: "" = right
static char **files;         // of the cases, NULL at the end

// What the process below does; `out` is its standard output.
static int run_from(uint32_t first)
{
    Model m;
    if (load_model(&perm, first, &m)) // stays open: a context of the driver is slow to make
        (void)begin_model(&m);
    for (uint32_t i = first; i < cases.len && check_case(i, stdout); i++) {
    }
    return 0;
}

// A program of its own: the driver does not work in the children of a process that has loaded it.
static void start_from(uint32_t first, int out)
{
    VEC(char *) argv = {0};
    vec_push(&perm, &argv, arena_strdup(&perm, "test_cuda"));
    vec_push(&perm, &argv, arena_strdup(&perm, "from"));
    vec_push(&perm, &argv, arena_printf(&perm, "%u", first));
    vec_push(&perm, &argv, arena_strdup(&perm, dir));
    for (char **f = files; *f != NULL; f++)
        vec_push(&perm, &argv, *f);
    vec_push(&perm, &argv, NULL);
    dup2(out, STDOUT_FILENO);
    execv("/proc/self/exe", argv.data);
    _exit(1);
}

// Cases from `first` on in a process of their own, until one of them ends it. Returns the next one.
static uint32_t run_some(uint32_t first)
{
    int ends[2];
    char line[4096];
    uint32_t next = first;
    if (pipe(ends) != 0)
        return cases.len;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        start_from(first, ends[1]);
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *text = strchr(line, ' ');
        next = (uint32_t)strtoul(line, NULL, 10);
        verdict[next++] = arena_strdup(&perm, text != NULL ? text + 1 : "no answer");
    }
    if (in != NULL)
        fclose(in);
    int status = 0;
    waitpid(child, &status, 0);
    if (next < cases.len && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        verdict[next++] = "it ended the process, or took too long";
    return next > first ? next : first + 1;
}

typedef struct Count {
    uint32_t right, wrong;
} Count;

static void find_ops(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)times;
    for (uint32_t i = 0; i < k->body.len; i++)
        ((bool *)ctx)[graph_node(p->graph, k->body.data[i])->op] = true;
}

static void print_ops(void)
{
    static Count count[OP_COUNT];
    for (uint32_t i = 0; i < cases.len; i++) {
        Arena a = {0};
        bool has[OP_COUNT] = {false};
        const Plan *p = plan_case(&a, &cases.data[i]);
        if (p != NULL)
            plan_walk(p, find_ops, has);
        for (uint32_t op = 0; op < OP_COUNT; op++) {
            count[op].right += has[op] && verdict[i][0] == '\0';
            count[op].wrong += has[op] && verdict[i][0] != '\0';
        }
        arena_free(&a);
    }
    printf("# op: cases that are right, wrong\n");
    for (uint32_t op = 0; op < OP_COUNT; op++)
        if (count[op].right + count[op].wrong != 0)
            printf("# %s: %u, %u\n", op_info[op].name, count[op].right, count[op].wrong);
}

// Asked by a process of its own.
static bool has_gpu(void)
{
    int status = 1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != NULL && has_nvrtc() ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int test_device(void)
{
    const char *gpu = getenv("RLXC_GPU");
    NvrtcGpus gpus;
    if (!nvrtc_read_gpus(&perm, gpu != NULL ? gpu : "sm_90a", &gpus) || !has_gpu()) {
        printf("1..0 # SKIP no driver of an NVIDIA GPU, or no NVRTC\n");
        return SKIPPED;
    }
    build_all(&gpus);
    verdict = ARENA_ARRAY(&perm, const char *, cases.len + 1);
    for (uint32_t next = 0; next < cases.len;)
        next = run_some(next);
    printf("1..%u\n", cases.len);
    for (uint32_t i = 0; i < cases.len; i++) {
        verdict[i] = verdict[i] != NULL ? verdict[i] : "it was not run";
        result(verdict[i][0] == '\0', i + 1, cases.data[i].name, verdict[i]);
    }
    print_ops();
    printf("# %u cases, %u failures\n", cases.len, n_failed);
    return n_failed != 0;
}

// Leaves out the cases whose names are lines of a file.
static void leave_out(const char *path)
{
    char line[256];
    FILE *f = fopen(path, "r");
    rlx_assert(f != NULL);
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        for (uint32_t i = cases.len; i-- > 0;)
            if (strcmp(cases.data[i].name, line) == 0) {
                memmove(&cases.data[i], &cases.data[i + 1], (cases.len - i - 1) * sizeof *cases.data);
                cases.len--;
            }
    }
    fclose(f);
}

static void keep_sample(uint32_t every)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < cases.len; i++)
        if (ops_is_sampled(i, every, 0))
            cases.data[n++] = cases.data[i];
    cases.len = n;
    ops_say_sample(every);
}

int main(int argc, char **argv)
{
    char name[] = "/tmp/rlxc_cuda_XXXXXX";
    const char *what = argc > 2 ? argv[1] : "";
    CpuInfo cpu;
    rlx_assert(argc > 2 && cpu_find("generic", &cpu));
    caps = target_caps(&target_cuda, &cpu);
    spoils = getenv("TEST_SPOIL") == NULL || strcmp(getenv("TEST_SPOIL"), "0") != 0;
    options = (PassOptions){.opt_level = 1, .caps = &caps, .place_budget = place_budget};
    const bool is_part = strcmp(what, "from") == 0 && argc > 4; // by start_from
    files = argv + (is_part ? 4 : 2);
    for (char **f = files; *f != NULL; f++)
        ops_read_cases(&perm, *f, getenv("TEST_OPS"), &cases);
    if (getenv("TEST_NOT") != NULL)
        leave_out(getenv("TEST_NOT"));
    if (strcmp(what, "kernels") == 0)
        keep_sample(KERNELS_ONE_OF);
    dir = is_part ? argv[3] : mkdtemp(name);
    rlx_assert(dir != NULL && cases.len > 0);
    if (is_part)
        return run_from((uint32_t)strtoul(argv[2], NULL, 10));
    const int code = strcmp(what, "kernels") == 0  ? test_kernels()
                     : strcmp(what, "host") == 0   ? test_host()
                     : strcmp(what, "device") == 0 ? test_device()
                                                   : 2;
    if (getenv("KEEP") == NULL && !run_command(arena_printf(&perm, "rm -rf %s", dir)))
        fprintf(stderr, "%s stays behind\n", dir);
    return code;
}
