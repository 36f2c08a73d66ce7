// SPDX-License-Identifier: Apache-2.0
// What of the API a benchmark without the header of its model calls, on any GPU.
#ifndef BENCH_GPU_HARNESS_API_H
#define BENCH_GPU_HARNESS_API_H

// Bytes of the record of a context.
size_t bench_ctx_bytes(void)
{
    return sizeof(rlx_ctx);
}

int bench_kernel_count(rlx_ctx *ctx)
{
    return (int)((const rlx_gpu_program *)ctx->model->device->program)->n_steps;
}

const char *bench_kernel_name(rlx_ctx *ctx, int i)
{
    return ctx->model->kernels[((const rlx_gpu_program *)ctx->model->device->program)->steps[i].row].name;
}

// A param or a state.
int bench_set_value(rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    return rlx_bind_handle(ctx, name, data, bytes);
}

int bench_read_state(rlx_ctx *ctx, const char *name, void *data, size_t bytes)
{
    return rlx_read_handle(ctx, name, data, bytes);
}

// Where the next run in place reads input `slot`, and where a run left output `slot`, both of the host.
void *bench_input(rlx_ctx *ctx, unsigned slot)
{
    return rlx_input(ctx, slot);
}

const void *bench_output(rlx_ctx *ctx, unsigned slot)
{
    return rlx_output(ctx, slot);
}

int bench_run(rlx_ctx *ctx)
{
    return rlx_run(ctx);
}

void bench_close(rlx_ctx *ctx)
{
    rlx_close(ctx);
}

#endif
