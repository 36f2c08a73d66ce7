// SPDX-License-Identifier: Apache-2.0
// Lower and upper case of letters whose UTF-8 has one or two bytes in both cases: Latin, Greek, Cyrillic and
// Armenian. Independent of any locale. Letters that change their length (sharp s, dotless i ...) stay.
#ifndef COMPILER_IMPORT_ONNX_TEXT_ONNX_CASE_H
#define COMPILER_IMPORT_ONNX_TEXT_ONNX_CASE_H

#include <stdint.h>

// Code points that UTF-8 writes in at most two bytes.
enum { CASE_POINTS = 0x800 };

uint32_t case_lower(uint32_t c);
uint32_t case_upper(uint32_t c);

#endif
