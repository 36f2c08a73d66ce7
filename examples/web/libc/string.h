// SPDX-License-Identifier: Apache-2.0
// What the generated code takes from <string.h>. With -mbulk-memory, memcpy is an instruction of WebAssembly,
// or plain loads and stores where its size is a small constant.
#ifndef STRING_H
#define STRING_H
#include <stddef.h>
#define memcpy __builtin_memcpy
#define memset __builtin_memset
#define strcmp __builtin_strcmp
#define strlen __builtin_strlen
#endif
