// SPDX-License-Identifier: Apache-2.0
// Whole models through import, passes, C, the system compiler and back, against stored outputs that others
// computed: the project's own (models/cases, numpy in f64, several runs on one context) and, where
// ../shared/models is present, real networks (ONNX Runtime). For every --cpu; of real networks, which take
// nearly all of the time, those for other CPUs than this machine's take turns from day to day. Prints TAP.
//
//   TEST_ALL=1 test_models   all networks for all of them
#include "../common/rotation.h"
#include "compiler/import/tensors/npy.h"
#include "compiler/system/rawfile.h"
#include "compiler/native/native.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const cpus[] = {"generic", "x86-64-v3", "x86-64-v4", "native"};
enum { N_CPUS = sizeof cpus / sizeof *cpus };
// A case is named as its model, without the folder.
static const char *const own_models[] = {"gelu_example", "mlp",           "lstm",       "lstm_stream",
                                         "transformer",  "digits/digits", "voice/voice"};
static const char *const shared_models[] = {"mnist_cntk", "ultraface_rfb320", "yolox_nano", "yunet_n_320",
                                            "dtln_1"};
static const double tolerance = 1e-4; // of the largest magnitude of the output

// ONNX Runtime's f32 sigmoid is a quotient plus 0.5: its absolute error near 0 is that of a number near 0.5.
// The stored "obj" outputs of yunet_n_320 (largest values 1e-5 to 2e-4) are multiples of 2^-23, so they
// cannot be met to 1e-4 of that; the reference evaluator agrees with the generated code to 1e-5 there.
// Differences below this count as none.
static const double oracle_error = 0x1p-22;

static int n_tests, n_failed;

typedef struct Suite {
    Arena arena;
    Diag diag;
    Cli cli;
    Job job;
    Native native;
} Suite;

static void result(bool ok, const char *name, const char *cpu, const char *why)
{
    n_tests++;
    n_failed += !ok;
    printf("%sok %d - %s %s%s%s\n", ok ? "" : "not ", n_tests, name, cpu, why[0] != '\0' ? " # " : "", why);
    fflush(stdout);
}

static bool this_machine_runs(const char *cpu)
{
    return strcmp(cpu, "x86-64-v3") == 0 ? __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
           : strcmp(cpu, "x86-64-v4") == 0
               ? __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")
               : true;
}

static bool open_model(Suite *s, const char *path, const char *cpu)
{
    *s = (Suite){0};
    s->diag = diag_new(&s->arena);
    s->cli = (Cli){.arena = &s->arena, .diag = &s->diag};
    s->cli.options.cpu = cpu;
    s->cli.options.name = "model";
    vec_push(&s->arena, &s->cli.options.args, path);
    const bool ok = job_begin(&s->job, &s->cli, cpu, false) && job_plan(&s->job) && job_emit(&s->job) &&
                    native_open(&s->job, NULL, &s->native);
    if (!ok)
        diag_print(&s->diag, stderr, DIAG_PLAIN);
    return ok;
}

static void close_model(Suite *s)
{
    native_close(&s->native);
    arena_free(&s->arena);
}

static bool read_tensor(Suite *s, const char *path, Tensor *out)
{
    RawFile file;
    const bool ok = rawfile_open(&s->arena, &s->diag, (Span){0}, path, &file) &&
                    npy_read(&s->arena, &s->diag, (Span){0}, path, file.data, file.len, out);
    if (!ok)
        diag_print(&s->diag, stderr, DIAG_PLAIN);
    return ok;
}

// Largest difference above `absolute`, relative to the largest magnitude; infinite when a value is NaN or
// infinite on one side only.
static double difference(const Tensor *got, const Tensor *want, int64_t first, double absolute)
{
    double error = 0, largest = 0;
    for (int64_t i = 0; i < got->numel; i++) {
        const double a = tensor_get_f64(got, i), b = tensor_get_f64(want, first + i);
        if ((isnan(a) && isnan(b)) || a == b)
            error = fmax(error, 0);
        else if (!isfinite(a) || !isfinite(b))
            return HUGE_VAL;
        else
            error = fmax(error, fabs(a - b) <= absolute ? 0 : fabs(a - b));
        largest = fmax(largest, isfinite(b) ? fabs(b) : 0);
    }
    return error == 0 ? 0 : error / largest;
}

// --- the project's own models: several runs on one context ---------------------------------------

static const char *case_path(Suite *s, const char *root, const char *name, const char *kind,
                             const char *tensor)
{
    return arena_printf(&s->arena, "%s/models/cases/%s/%s_%s.npy", root, name, kind, tensor);
}

static bool run_own_cases(Suite *s, const char *root, const char *name, double *worst)
{
    const Plan *p = s->job.plan;
    Tensor *in = ARENA_ARRAY(&s->arena, Tensor, p->inputs.len + 1),
           *want = ARENA_ARRAY(&s->arena, Tensor, p->outputs.len);
    Tensor *now = ARENA_ARRAY(&s->arena, Tensor, p->inputs.len + 1),
           *got = ARENA_ARRAY(&s->arena, Tensor, p->outputs.len);
    for (uint32_t i = 0; i < p->inputs.len; i++)
        if (!read_tensor(s, case_path(s, root, name, "input", p->inputs.data[i].name), &in[i]))
            return false;
    for (uint32_t i = 0; i < p->outputs.len; i++)
        if (!read_tensor(s, case_path(s, root, name, "output", p->outputs.data[i].name), &want[i]))
            return false;
    for (int64_t run = 0; run < want[0].dim[0]; run++) {
        for (uint32_t i = 0; i < p->inputs.len; i++) {
            now[i] = in[i];
            now[i].data = (char *)in[i].data + (uint64_t)run * p->inputs.data[i].bytes;
        }
        if (!native_run(&s->job, &s->native, now, got))
            return false;
        for (uint32_t i = 0; i < p->outputs.len; i++)
            *worst = fmax(*worst, difference(&got[i], &want[i], run * got[i].numel, 0));
    }
    return true;
}

static void test_own(const char *root, const char *name, const char *cpu)
{
    Suite s;
    double worst = 0;
    char path[5000], why[64];
    const char *folder = strchr(name, '/'), *case_name = folder != NULL ? folder + 1 : name;
    snprintf(path, sizeof path, "%s/models/%s.json", root, name);
    const bool ran = open_model(&s, path, cpu) && run_own_cases(&s, root, case_name, &worst);
    snprintf(why, sizeof why, "largest error %.2g", worst);
    result(ran && worst <= tolerance, case_name, cpu, why);
    close_model(&s);
}

// --- real networks: case_K/input_J.npy and output_J.npy ------------------------------------------

static bool run_shared_case(Suite *s, const char *dir, double *worst)
{
    const Plan *p = s->job.plan;
    Tensor *in = ARENA_ARRAY(&s->arena, Tensor, p->inputs.len),
           *got = ARENA_ARRAY(&s->arena, Tensor, p->outputs.len);
    for (uint32_t i = 0; i < p->inputs.len; i++)
        if (!read_tensor(s, arena_printf(&s->arena, "%s/input_%u.npy", dir, i), &in[i]))
            return false;
    if (!native_run(&s->job, &s->native, in, got))
        return false;
    for (uint32_t i = 0; i < p->outputs.len; i++) {
        Tensor want;
        if (!read_tensor(s, arena_printf(&s->arena, "%s/output_%u.npy", dir, i), &want) ||
            want.numel != got[i].numel)
            return false;
        *worst = fmax(*worst, difference(&got[i], &want, 0, oracle_error));
    }
    return true;
}

static void test_shared(const char *shared, const char *name, const char *cpu)
{
    Suite s;
    double worst = 0;
    char path[5000], why[64];
    snprintf(path, sizeof path, "%s/onnx/%s/model.onnx", shared, name);
    bool ok = open_model(&s, path, cpu);
    int cases = 0;
    for (; ok; cases++) {
        char dir[5000];
        snprintf(dir, sizeof dir, "%s/onnx/%s/case_%d", shared, name, cases);
        if (access(dir, R_OK) != 0)
            break;
        ok = run_shared_case(&s, dir, &worst);
    }
    const double arena = ok ? (double)s.job.plan->region_bytes[REGION_ARENA] : 0;
    ok = ok && cases > 0 && worst <= tolerance && arena <= 1.10 * (double)s.job.plan->arena_lower_bound;
    snprintf(why, sizeof why, "%d cases, largest error %.2g", cases, worst);
    result(ok, name, cpu, why);
    close_model(&s);
}

// One of the other CPUs a day for each network, and all in as many days.
static bool is_todays(size_t cpu, size_t network)
{
    return cpu == N_CPUS - 1 || getenv("TEST_ALL") != NULL ||
           (network + test_rotation()) % (N_CPUS - 1) == cpu;
}

int main(void)
{
    const char *root = getenv("RLXC_SOURCE");
    char shared[4096];
    root = root != NULL ? root : ".";
    snprintf(shared, sizeof shared, "%s/../shared/models", root);
    const bool has_shared = access(shared, R_OK) == 0;
    for (size_t c = 0; c < N_CPUS; c++) {
        if (!this_machine_runs(cpus[c])) {
            result(true, "all models", cpus[c], "SKIP this machine lacks the instructions");
            continue;
        }
        for (size_t i = 0; i < sizeof own_models / sizeof own_models[0]; i++)
            test_own(root, own_models[i], cpus[c]);
        for (size_t i = 0; has_shared && i < sizeof shared_models / sizeof shared_models[0]; i++)
            if (is_todays(c, i))
                test_shared(shared, shared_models[i], cpus[c]);
    }
    if (!has_shared)
        result(true, "real networks", "", "SKIP ../shared/models is not here");
    printf("1..%d\n", n_tests);
    return n_failed != 0;
}
