// SPDX-License-Identifier: Apache-2.0
// See spirv.h.
#include "compiler/images/spirv.h"
#include "compiler/cli/cli.h"

#include <stdio.h>
#include <string.h>

#if RLXC_HAS_GLSLANG
#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <spirv-tools/libspirv.h>

bool spirv_is_here(void)
{
    return true;
}

static const char *said(Arena *a, const char *log)
{
    return arena_printf(a, "glslang: %s", log);
}

// NULL, or what the validator says. has_names: it calls values by names, whose making takes most of its time.
static const char *validate_with(Arena *a, const uint32_t *words, size_t len, bool has_names)
{
    spv_const_binary_t binary = {words, len};
    spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_2);
    spv_validator_options options = spvValidatorOptionsCreate();
    spv_diagnostic diagnostic = NULL;
    spvValidatorOptionsSetFriendlyNames(options, has_names);
    const spv_result_t result = spvValidateWithOptions(context, options, &binary, &diagnostic);
    const char *wrong = result == SPV_SUCCESS ? NULL
                                              : arena_printf(a, "SPIRV-Tools: %s",
                                                             diagnostic != NULL ? diagnostic->error
                                                                                : "the module is not valid");
    spvDiagnosticDestroy(diagnostic);
    spvValidatorOptionsDestroy(options);
    spvContextDestroy(context);
    return wrong;
}

static const char *validate(Arena *a, const uint32_t *words, size_t len)
{
    const bool is_valid = validate_with(a, words, len, false) == NULL;
    return is_valid ? NULL : validate_with(a, words, len, true);
}

static void take_words(Arena *a, glslang_program_t *program, Spirv *out)
{
#if RLXC_HAS_SPV_OPTIONS
    glslang_spv_options_t options = {.disable_optimizer = true}; // what it makes is validated below
    glslang_program_SPIRV_generate_with_options(program, GLSLANG_STAGE_COMPUTE, &options);
#else
    glslang_program_SPIRV_generate(program, GLSLANG_STAGE_COMPUTE);
#endif
    out->len = glslang_program_SPIRV_get_size(program);
    uint32_t *words = ARENA_ARRAY(a, uint32_t, out->len + 1);
    glslang_program_SPIRV_get(program, words);
    out->words = words;
    spirv_keep_products(a, out);
    out->wrong = validate(a, out->words, out->len);
}

Spirv spirv_compile(Arena *a, const char *glsl, const char *kernel, SpirvWay way)
{
    static bool has_begun;
    const glslang_input_t input = {.language = GLSLANG_SOURCE_GLSL,
                                   .stage = GLSLANG_STAGE_COMPUTE,
                                   .client = GLSLANG_CLIENT_VULKAN,
                                   .client_version = GLSLANG_TARGET_VULKAN_1_2,
                                   .target_language = GLSLANG_TARGET_SPV,
                                   .target_language_version = GLSLANG_TARGET_SPV_1_5,
                                   .code = glsl,
                                   .default_version = 450,
                                   .default_profile = GLSLANG_NO_PROFILE,
                                   .messages = GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT,
                                   .resource = glslang_default_resource()};
    Spirv out = {0};
    if (!has_begun)
        glslang_initialize_process();
    has_begun = true;
    glslang_shader_t *shader = glslang_shader_create(&input);
    glslang_program_t *program = glslang_program_create();
    glslang_shader_set_preamble(shader, arena_printf(a, "#define RLX_KERNEL_%s 1\n%s", kernel,
                                                     way != SPIRV_PLAIN ? "#define RLX_COOP 1\n" : ""));
    if (!glslang_shader_preprocess(shader, &input) || !glslang_shader_parse(shader, &input)) {
        out.wrong = said(a, glslang_shader_get_info_log(shader));
    } else {
        glslang_program_add_shader(program, shader);
        if (!glslang_program_link(program, (int)input.messages))
            out.wrong = said(a, glslang_program_get_info_log(program));
        else
            take_words(a, program, &out);
    }
    glslang_program_delete(program);
    glslang_shader_delete(shader);
    if (out.wrong == NULL && way != SPIRV_PLAIN)
        spirv_use_khr_matrices(a, &out, way == SPIRV_COOP_BF16);
    return out;
}

#else

bool spirv_is_here(void)
{
    return false;
}

Spirv spirv_compile(Arena *a, const char *glsl, const char *kernel, SpirvWay way)
{
    (void)a, (void)glsl, (void)kernel, (void)way;
    return (Spirv){.wrong = "rlxc was built without glslang and SPIRV-Tools, which make SPIR-V: install "
                            "them (Debian: apt-get install g++ glslang-dev spirv-tools) and build rlxc "
                            "again, in a new folder or after meson setup --wipe build"};
}

#endif

SpirvWay spirv_coop_way(const char *glsl, const char *kernel)
{
    char begin[256];
    snprintf(begin, sizeof begin, "#ifdef RLX_KERNEL_%s\n", kernel);
    const char *own = strstr(glsl, begin), *next = own != NULL ? strstr(own + 1, "#ifdef RLX_KERNEL_") : NULL;
    const char *use = own != NULL ? strstr(own, "if RLX_HAS_COOP") : NULL;
    const char *bf16 = own != NULL ? strstr(own, "rlx_coop_product_bf16(") : NULL;
    if (use == NULL || (next != NULL && use >= next))
        return SPIRV_PLAIN;
    return bf16 != NULL && (next == NULL || bf16 < next) ? SPIRV_COOP_BF16 : SPIRV_COOP;
}

static bool add_image(const SpirvJob *j, const char *text, const char *const *functions, uint32_t i,
                      SpirvWay way, GpuImages *out)
{
    const Spirv s = spirv_compile(j->arena, text, functions[i], way);
    const char *label = way != SPIRV_PLAIN ? arena_printf(j->arena, "%s_coop", functions[i]) : functions[i];
    const GpuImage image = {.kind = way == SPIRV_COOP_BF16 ? i | SPIRV_BF16 : i,
                            .label = label,
                            .data = s.words,
                            .len = s.len * sizeof *s.words};
    if (s.wrong != NULL)
        return diag_error(j->diag, (Span){0}, E0005, "kernel %s: %s", functions[i], s.wrong);
    rlx_assert(s.words != NULL && s.len != 0);
    vec_push(j->arena, out, image);
    return true;
}

bool spirv_compile_all(void *ctx, const char *text, const char *const *functions, uint32_t n, GpuImages *out)
{
    const SpirvJob *j = ctx;
    for (uint32_t i = 0; i < n; i++) {
        cli_progress_step("compiling kernels", i, n);
        if (!add_image(j, text, functions, i, SPIRV_PLAIN, out))
            return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const SpirvWay way = spirv_coop_way(text, functions[i]);
        if (way != SPIRV_PLAIN && !add_image(j, text, functions, i, way, out))
            return false;
    }
    return true;
}
