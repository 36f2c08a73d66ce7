// SPDX-License-Identifier: Apache-2.0
// The Metal target: one kernel function a kernel, buffer i for parameter i. Metal has no f64.
// Dispatch KernelGrid.groups groups of KernelGrid.group threads in x; the library must be compiled without
// fast-math.
#include "codegen/target/gpu.h"
#include "codegen/target/prelude.h"

#include <string.h>

static const TypeSpell types[DTYPE_COUNT + 1] = {
#define TYPE(type, ...) [type] = {__VA_ARGS__},
#include "codegen/target/gpu_types.def"
#undef TYPE
};

#define OWN(name)                                                                                            \
    {                                                                                                        \
        KOP_##name, SPELL_F32, "rlx_" #name "($0)"                                                           \
    }
#define PRECISE(name)                                                                                        \
    {                                                                                                        \
        KOP_##name, SPELL_F32, "precise::" #name "($0)"                                                      \
    }
static const SpellOverride overrides[] = {
    OWN(expm1),
    OWN(log1p),
    OWN(erf),
    PRECISE(sqrt),
    PRECISE(exp),
    {KOP_gelu, SPELL_F32, "$0 * 0.5f * (rlx_erf($0 * 0.70710678118654752f) + 1.0f)"},
    {KOP_gate, SPELL_F32, "$0 / (1.0f + precise::exp(-$1))"},
    PRECISE(log),
    PRECISE(sin),
    PRECISE(cos),
    PRECISE(tan),
    PRECISE(asin),
    PRECISE(acos),
    PRECISE(atan),
    PRECISE(sinh),
    PRECISE(cosh),
    PRECISE(tanh),
    PRECISE(asinh),
    PRECISE(acosh),
    PRECISE(atanh),
    {KOP_pow, SPELL_F32, "precise::pow($0, $1)"},
    {KOP_atan2, SPELL_F32, "precise::atan2($0, $1)"},
    {KOP_rem, SPELL_F32, "precise::fmod($0, $1)"},
};

static const char *const *const prelude[] = {prelude_msl, prelude_gpu_common, prelude_gpu_math, NULL};

#define HEAD "[[max_total_threads_per_threadgroup($L)]] kernel void $0($1, "

static const GroupSpell group = {
    .signature = HEAD "uint3 rlx_group [[threadgroup_position_in_grid]], uint rlx_thread "
                      "[[thread_index_in_threadgroup]], uint rlx_simd [[threads_per_simdgroup]])",
    .id = "rlx_idx(rlx_group.x)",
    .thread = "rlx_idx(rlx_thread)",
    .subgroup = "rlx_idx(rlx_simd)",
    .shuffle = "simd_shuffle_xor($0, ushort($1))",
    .shared = "threadgroup $0 $1[$2];",
    .words = {"rlx_u32", "uint2", "uint4"},
    .make = {"rlx_u32", "uint2", "uint4"},
    .fetch = "*(device const $T *)&$0",
    .put = "*(device $T *)&$0",
};

static bool set_gpu(const char *family, TargetCaps *caps)
{
    caps->has_simd_matrix = strcmp(family, "apple7") == 0;
    return caps->has_simd_matrix;
}

const Target target_metal = {
    .name = "metal",
    .device = DEVICE_METAL,
    .set_gpu = set_gpu,
    .gpu_words = "apple7 with --target metal",
    .caps = {.name = "metal",
             .f32_lanes = 1,
             .is_gpu = true,
             .shared_bytes = GPU_SHARED_BYTES,
             .group_threads = 256,
             .max_params = 31,
             .channels_last = true},
    .types = types,
    .spell = gpu_spell,
    .overrides = overrides,
    .n_overrides = sizeof overrides / sizeof *overrides,
    .cast = "$T($0)",
    .signature = HEAD "uint3 rlx_id [[thread_position_in_grid]])",
    .param_read = "device const $0 *$1 [[buffer($2)]]",
    .param_written = "device $0 *$1 [[buffer($2)]]",
    .param_prefix = "",
    .param_separator = ", ",
    .no_params = "device const int *unused [[buffer(0)]]",
    .custom_function = "static void $0($1)",
    .custom_read = "device const $0 *$1",
    .custom_written = "device $0 *$1",
    .restrict_word = "",
    .group = &group,
    .thread_id = "rlx_idx(rlx_id.x)",
    .array = "$0 $1[$2];",
    .barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);",
    .unroll = "#pragma unroll",
    .begin = "",
    .end = "}\n",
    .prelude = prelude,
};
