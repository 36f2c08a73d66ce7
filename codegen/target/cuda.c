// SPDX-License-Identifier: Apache-2.0
// The CUDA target: text for NVRTC (no headers needed) and nvcc, one extern "C" __global__ function a kernel.
// Launch with KernelGrid.group threads a block, all of them in x.
//
// What is only read is not __restrict__: the compiler would read it through the cache of constants, perhaps
// before rlx_wait, while the kernel before may still write it.
#include "codegen/target/gpu.h"
#include "codegen/target/prelude.h"

static const TypeSpell types[DTYPE_COUNT + 1] = {
#define TYPE(type, ...) [type] = {__VA_ARGS__},
#include "codegen/target/gpu_types.def"
#undef TYPE
    [DTYPE_f64] = {"rlx_f64", "rlx_f64", "f64", NULL, "$0", "$0", "$0", NULL},
};

// Exact division and exp are what kernels that should only move data would wait for; relative to 1 these are
// as good.
static const SpellOverride overrides[] = {
    {KOP_gate, SPELL_F32, "__fdividef($0, 1.0f + __expf(-$1))"},
};

static const char *const *const prelude[] = {prelude_cuda, prelude_cuda_device, prelude_gpu_common, NULL};

static const GroupSpell group = {
    .signature = "extern \"C\" __global__ void __launch_bounds__($L$3) $2$0($1)",
    .id = "rlx_idx(blockIdx.x)",
    .thread = "rlx_idx(threadIdx.x)",
    .subgroup = "32",
    .subgroup_size = 32,
    .shuffle = "rlx_swap($0, $1)",
    .shared = "alignas(16) __shared__ $0 $1[$2];",
    .words = {"rlx_u32", "uint2", "uint4"},
    .make = {"rlx_u32", "make_uint2", "make_uint4"},
    .fetch = "*(const $T *)&$0",
    .put = "*($T *)&$0",
    .fetch_once = "rlx_read_once(&$0)",
    .put_once = "rlx_write_once",
};

// As exact as 16 bits can tell.
static const SpellOverride halves[] = {{KOP_gate, SPELL_F32, "rlx_half_gate($0, $1)"},
                                       {KOP_div, SPELL_F32, "rlx_half_div($0, $1)"},
                                       {KOP_exp, SPELL_F32, "rlx_half_exp($0)"}};

const Target target_cuda = {
    .name = "cuda",
    .device = DEVICE_CUDA,
    .caps = {.name = "cuda",
             .f32_lanes = 1,
             .is_gpu = true,
             .shared_bytes = 48 << 10,
             .group_threads = 1024,
             .orders_memory = true,
             .has_mma = true,
             .has_loops = true,
             .channels_last = true},
    .types = types,
    .spell = gpu_spell,
    .halves = halves,
    .n_halves = sizeof halves / sizeof *halves,
    .overrides = overrides,
    .n_overrides = sizeof overrides / sizeof *overrides,
    .cast = "$T($0)",
    .widen = "rlx_narrow_to_f32($0)",
    .signature = "extern \"C\" __global__ void $0($1)",
    .param_read = "const $0 *$1",
    .param_written = "$0 *$3$1",
    .param_prefix = "",
    .param_separator = ", ",
    .no_params = "",
    .custom_function = "static __device__ void $0($1)",
    .custom_read = "const $0 *$1",
    .custom_written = "$0 *$1",
    .restrict_word = "__restrict__ ",
    .group = &group,
    .thread_id = "rlx_idx(blockIdx.x) * rlx_idx(blockDim.x) + rlx_idx(threadIdx.x)",
    .array = "$0 $1[$2];",
    .barrier = "__syncthreads();",
    .wait = "rlx_wait();",
    .late_wait = "rlx_late_wait();",
    .unroll = "#pragma unroll",
    .roll = "#pragma unroll 1",
    .begin = "",
    .end = "}\n",
    .prelude = prelude,
};
