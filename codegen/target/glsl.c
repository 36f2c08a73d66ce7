// SPDX-License-Identifier: Apache-2.0
// The Vulkan target, in GLSL: compute shaders for Vulkan 1.2, one shader a kernel: all are in
// one text, and RLX_KERNEL_name says which one is meant. Addresses of parameters are push
// constants: neither descriptors nor the largest size of a buffer. Indices are of 32 bits. Groups may be laid
// out in x and y as a device allows. No f64 mathematics: GLSL has none.
#include "codegen/target/gpu.h"
#include "codegen/target/prelude.h"

#include <string.h>

static const TypeSpell types[DTYPE_COUNT + 1] = {
#define TYPE(type, ...) [type] = {__VA_ARGS__},
#include "codegen/target/gpu_types.def"
#undef TYPE
    [DTYPE_f64] = {"rlx_f64", "rlx_f64", "f64", NULL, "$0lf", "$0", "$0", NULL},
};

// The language's own are imprecise (exp: 3 + 2 |x| ulp) or undefined for some operands.
#define OWN(name)                                                                                            \
    {KOP_##name, SPELL_F32, "rlx_" #name "($0)"},                                                            \
    {                                                                                                        \
        KOP_##name, SPELL_F64, NULL                                                                          \
    }
#define OWN2(name, spelled)                                                                                  \
    {KOP_##name, SPELL_F32, spelled "($0, $1)"},                                                             \
    {                                                                                                        \
        KOP_##name, SPELL_F64, NULL                                                                          \
    }
#define F32_ONLY(name)                                                                                       \
    {                                                                                                        \
        KOP_##name, SPELL_F64, NULL                                                                          \
    }
static const SpellOverride overrides[] = {
    OWN(exp),
    OWN(expm1),
    {KOP_gate, SPELL_F32, "$0 / (1.0 + rlx_exp(-$1))"},
    {KOP_gelu, SPELL_F32, "$0 * 0.5 * (rlx_erf($0 * 0.70710678118654752) + 1.0)"},
    F32_ONLY(gate),
    F32_ONLY(gelu),
    OWN(log),
    OWN(log1p),
    OWN(tanh),
    OWN(erf),
    OWN(sinh),
    OWN(cosh),
    OWN(asinh),
    OWN(acosh),
    OWN(atanh),
    OWN2(pow, "rlx_pow"),
    OWN2(rem, "rlx_fmod"),
    OWN2(atan2, "rlx_atan2"),
    OWN(sin),
    OWN(cos),
    OWN(tan),
    OWN(asin),
    OWN(acos),
    OWN(atan),
    {KOP_rint, SPELL_F32, "roundEven($0)"},
    {KOP_rint, SPELL_F64, "roundEven($0)"},
};

static const SpellOverride halves[] = {{KOP_gate, SPELL_F32, "$0 / (1.0 + rlx_half_exp(-$1))"},
                                       {KOP_exp, SPELL_F32, "rlx_half_exp($0)"}};

static const char *const *const prelude[] = {prelude_glsl, prelude_gpu_common, prelude_gpu_math, NULL};

// Blocks at any address that suits their elements.
#define BLOCK(kind)                                                                                          \
    "layout(buffer_reference, std430, buffer_reference_align = $L) " kind " Ref$2 { $0 rlx_at[]; };\n"       \
    "#define $1 Ref$2(RLX_ARG($2)).rlx_at"
#define MAIN "layout(local_size_x = $L) in;\n\nvoid main() // $0"

static const GroupSpell group = {
    .signature = MAIN,
    .id = "rlx_idx(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x)",
    .thread = "rlx_idx(gl_LocalInvocationID.x)",
    .subgroup = "rlx_subgroup",
    .shuffle = "rlx_swap($0, $1)",
    .shared = "shared $0 $1[$2];",
    .words = {"rlx_u32", "uvec2", "uvec4"},
    .make = {"rlx_u32", "uvec2", "uvec4"},
    .fetch = "rlx_wide$L(RLX_ARG($2)).rlx_at[$1 >> $3]",
    .put = "rlx_wide$L(RLX_ARG($2)).rlx_at[$1 >> $3]",
};

static bool set_gpu(const char *kind, TargetCaps *caps)
{
    caps->has_coop = strcmp(kind, "coopmat") == 0;
    return caps->has_coop;
}

const Target target_vulkan = {
    .name = "vulkan",
    .device = DEVICE_VULKAN,
    .set_gpu = set_gpu,
    .gpu_words = "coopmat with --target vulkan",
    .caps = {.name = "vulkan",
             .f32_lanes = 1,
             .is_gpu = true,
             .shared_bytes = GPU_SHARED_BYTES,
             .group_threads = 256,
             .has_parts = true,
             .counts_up = true, // drivers read indices as if they were unsigned
             .channels_last = true},
    .types = types,
    .spell = gpu_spell,
    .halves = halves,
    .n_halves = sizeof halves / sizeof *halves,
    .overrides = overrides,
    .n_overrides = sizeof overrides / sizeof *overrides,
    .cast = "$T($0)",
    .times_zero = "rlx_times_zero($0, $1)",
    .signature = MAIN,
    .param_read = BLOCK("readonly buffer"),
    .param_written = BLOCK("buffer"),
    .param_prefix = "p_", // they are macros
    .param_separator = "\n",
    .no_params = "",
    .params_first = true,
    .custom_function = "void $0($1)",
    .restrict_word = "",
    .roll = "[[dont_unroll]]",
    .group = &group,
    .thread_id = "rlx_idx((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + "
                 "gl_LocalInvocationID.x)",
    .address = "RLX_ARG($1), $0",
    .array = "$0 $1[$2];",
    .barrier = "barrier();",
    .begin = "#ifdef RLX_KERNEL_$0\n",
    .end = "}\n#endif\n",
    .prelude = prelude,
};
