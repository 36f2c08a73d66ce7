// SPDX-License-Identifier: Apache-2.0
// probe.c as text, made by the build (tools/embed.py): lines, NULL at the end.
#ifndef COMPILER_BENCH_PROBE_TEXT_H
#define COMPILER_BENCH_PROBE_TEXT_H

extern const char *const bench_probe_c[];

#endif
