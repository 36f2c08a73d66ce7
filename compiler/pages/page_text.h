// SPDX-License-Identifier: Apache-2.0
// The files of compiler/html as text, made by the build (tools/embed.py): lines, NULL at the end.
#ifndef COMPILER_PAGES_PAGE_TEXT_H
#define COMPILER_PAGES_PAGE_TEXT_H

extern const char *const html_page[];
extern const char *const html_style[];
extern const char *const html_script[]; // all of them, one after the other

#endif
