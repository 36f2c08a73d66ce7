// SPDX-License-Identifier: Apache-2.0
// The files of compiler/metal as text, made by the build (tools/embed.py): lines, NULL at the end.
#ifndef COMPILER_NATIVE_METAL_TEXT_H
#define COMPILER_NATIVE_METAL_TEXT_H

extern const char *const metal_cpu_objc_h[];
extern const char *const metal_cpu_objc_c[];
extern const char *const metal_device_h[];
extern const char *const metal_device_c[];
extern const char *const metal_cpu_kernels_h[];
extern const char *const metal_cpu_kernels_c[];
extern const char *const metal_cpu_metal_h[];
extern const char *const metal_cpu_metal_c[];
extern const char *const metal_cpu_commands_c[];
extern const char *const metal_stdlib_text[];

#endif
