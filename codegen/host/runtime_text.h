// SPDX-License-Identifier: Apache-2.0
// The texts of runtime-lite/*.h, made into C strings by the build (tools/embed.py).
#ifndef CODEGEN_HOST_RUNTIME_TEXT_H
#define CODEGEN_HOST_RUNTIME_TEXT_H

// Lines, each with its newline; NULL at the end. Of rlx.h:
extern const char *const types_text[];
extern const char *const runtime_text[];
// The lines of rlx_NAME.h:
extern const char *const symbols_text[];
extern const char *const moe_text[];
extern const char *const moe_gpu_text[];
extern const char *const parallel_text[];
extern const char *const buckets_text[];
extern const char *const threads_text[];
extern const char *const handles_text[];
extern const char *const run_text[];
extern const char *const held_text[];
extern const char *const times_text[];
extern const char *const devices_text[];
extern const char *const cuda_devices_text[];
extern const char *const links_text[];
extern const char *const look_text[];
extern const char *const tables_text[];
extern const char *const stubs_text[]; // rlx_stubs.h: pasted nowhere
extern const char *const runs_text[];
extern const char *const typed_text[];
extern const char *const params_text[];
extern const char *const calls_text[];
extern const char *const errors_text[];
extern const char *const values_text[];
extern const char *const numbers_text[];
extern const char *const gpu_text[];
extern const char *const vulkan_text[];
extern const char *const vulkan_device_text[];
extern const char *const vulkan_commands_text[];
extern const char *const cuda_api_text[];
extern const char *const vulkan_api_text[];
extern const char *const cuda_graph_text[];
extern const char *const cuda_nodes_text[];
extern const char *const cuda_queue_text[];
extern const char *const cuda_text[];
extern const char *const metal_api_text[];
extern const char *const metal_text[];

#endif
