// SPDX-License-Identifier: Apache-2.0
// The end of metal_selftest.c (tests/gpu/print_selftest.c): runs its cases, two runs each, and compares their
// outputs with those of the reference evaluator. What is before it: runtime-lite, the models, and `cases`.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double f16_value(unsigned bits)
{
    const unsigned exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    const double sign = bits >> 15 ? -1.0 : 1.0;
    if (exponent == 31u)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024.0 + fraction, (int)exponent - 25));
}

static double float_value(const void *data, size_t i, rlx_dtype type)
{
    float value;
    uint16_t half;
    uint32_t bits;
    if (type == RLX_F32) {
        memcpy(&value, (const char *)data + 4 * i, 4);
        return value;
    }
    memcpy(&half, (const char *)data + 2 * i, 2);
    if (type == RLX_F16)
        return f16_value(half);
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, 4);
    return value;
}

static int is_float(rlx_dtype type)
{
    return type == RLX_F32 || type == RLX_F16 || type == RLX_BF16;
}

// The largest difference, relative to the largest magnitude; infinite where one side has no number.
static double difference(const void *got, const void *want, size_t n, rlx_dtype type)
{
    double largest = 1e-30, error = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        const double a = float_value(got, i, type), b = float_value(want, i, type);
        if (isfinite(b) && fabs(b) > largest)
            largest = fabs(b);
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        if (!isfinite(a) || !isfinite(b))
            return (double)INFINITY;
        error = fabs(a - b) > error ? fabs(a - b) : error;
    }
    return error / largest;
}

// What is wrong with an output, as the error above its tolerance; 0: nothing.
static double check_output(const rlx_tensor *t, const void *got, const void *want)
{
    const double tolerance = t->dtype == RLX_F16 ? 2e-3 : t->dtype == RLX_BF16 ? 2e-2 : 1e-5;
    double error;
    if (!is_float(t->dtype))
        return memcmp(got, want, t->bytes) != 0 ? (double)INFINITY : 0;
    error = difference(got, want, t->bytes / (t->dtype == RLX_F32 ? 4u : 2u), t->dtype);
    return error > tolerance ? error : 0;
}

static const unsigned char *next_data(const unsigned char **data, size_t bytes)
{
    const unsigned char *const at = *data;
    *data += (bytes + 7u) / 8u * 8u;
    return at;
}

// What the device is called.
static void print_device(const rlx_ctx *ctx)
{
    const rlx_metal *const r = rlx_metal_of(ctx);
    const rlx_metal_objc *const o = &r->objc;
    void *const pool = o->push();
    void *const name = ((void *(*)(void *, void *))o->send)(r->device, o->get_selector("name"));
    printf("device: %s\n",
           ((const char *(*)(void *, void *))o->send)(name, o->get_selector("UTF8String")));
    o->pop(pool);
}

// ms: of the second run, with the host's part; on the device alone.
static int run_case(const Case *c, rlx_ctx *ctx, double ms[2])
{
    const rlx_model *const m = c->model;
    const unsigned char *data = (const unsigned char *)c->data;
    uint32_t run, i;
    for (run = 0; run < 2; run++) {
        double begin;
        rlx_status status;
        for (i = 0; i < m->n_inputs; i++)
            memcpy(rlx_input(ctx, i), next_data(&data, m->inputs[i].bytes), m->inputs[i].bytes);
        begin = now_ms();
        status = rlx_run(ctx);
        ms[0] = now_ms() - begin;
        ms[1] = rlx_metal_seconds(ctx) * 1e3;
        if (status != RLX_OK) {
            printf("FAIL %s: %s\n", c->name, rlx_status_text(status));
            return 0;
        }
        for (i = 0; i < m->n_outputs; i++) {
            const rlx_tensor *const t = &m->outputs[i];
            const double error = check_output(t, rlx_output(ctx, i), next_data(&data, t->bytes));
            if (error > 0) {
                printf("FAIL %s: output %s of run %u, error %.3g\n", c->name, t->name, run + 1, error);
                return 0;
            }
        }
    }
    return 1;
}

int main(void)
{
    const size_t n = sizeof cases / sizeof *cases;
    size_t i, n_right = 0;
    for (i = 0; i < n; i++) {
        const rlx_model *const m = cases[i].model;
        const size_t bytes = m->arena_bytes + m->state_bytes + 3 * RLX_ALIGNMENT;
        unsigned char *const memory = (unsigned char *)calloc(1, bytes), *arena = memory, *state;
        double ms[2], begin = now_ms(), open_ms;
        rlx_ctx ctx;
        rlx_status status;
        if (memory == NULL)
            return 2;
        arena += (RLX_ALIGNMENT - (uintptr_t)arena % RLX_ALIGNMENT) % RLX_ALIGNMENT;
        state = arena + (m->arena_bytes + RLX_ALIGNMENT - 1) / RLX_ALIGNMENT * RLX_ALIGNMENT;
        status = rlx_init(&ctx, m, arena, m->arena_bytes, state, m->state_bytes, NULL, 0);
        open_ms = now_ms() - begin;
        if (status != RLX_OK) {
            printf("FAIL %s: no context: %s\n", cases[i].name, rlx_status_text(status));
        } else {
            if (i == 0)
                print_device(&ctx);
            if (run_case(&cases[i], &ctx, ms)) {
                printf("ok   %s (%s): %.3f ms, on the device %.3f, opened in %.1f\n", cases[i].name,
                       cases[i].ops, ms[0], ms[1], open_ms);
                n_right++;
            }
            rlx_close(&ctx);
        }
        free(memory);
    }
    printf("%zu of %zu cases are right%s\n", n_right, n, n_right == n ? "" : ": please report this output");
    return n_right == n ? 0 : 1;
}
