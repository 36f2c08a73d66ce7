// SPDX-License-Identifier: Apache-2.0
// For programs with language models that get JSON schemas and conversations while they run: grammars for
// rlx_parse_start, and the texts of chat templates. All else that a model needs is in the C that rlxc
// generates. Link with librlxc_text and libcjson (pkg-config rlxc-text).
// Objects may be used by any number of threads at once. What a text can take is limited; when there is no
// memory, the program ends.
#ifndef RLXC_TEXT_H
#define RLXC_TEXT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_grammar; // of generated headers

// A JSON schema, which becomes a rule of this name in a grammar.
typedef struct rlxc_schema {
    const char *name, *text;
    size_t n; // bytes of the text
} rlxc_schema;

// A grammar in GBNF whose rules may call those of the schemas. The names of its own rules must begin with an
// upper-case letter, but for `root`. NULL: `why`, which has room for so many bytes, says what is wrong.
typedef struct rlxc_grammar rlxc_grammar;
rlxc_grammar *rlxc_grammar_read(const char *gbnf, size_t n, const rlxc_schema *schemas, size_t n_schemas,
                                char *why, size_t room);
// It lives as long as the grammar.
const struct rlx_grammar *rlxc_grammar_tables(const rlxc_grammar *g);
void rlxc_grammar_free(rlxc_grammar *g); // NULL: nothing happens

// A chat template (Jinja). The text is copied.
typedef struct rlxc_template rlxc_template;
rlxc_template *rlxc_template_read(const char *text, size_t n, char *why, size_t room);
// What the template makes of its variables, a JSON object, with a zero behind it; free() takes it. `length`,
// which may be NULL, gets its bytes. NULL: `why` says what is wrong, or what the template says is.
char *rlxc_template_render(const rlxc_template *t, const char *variables, size_t n, size_t *length, char *why,
                           size_t room);
void rlxc_template_free(rlxc_template *t);

#ifdef __cplusplus
}
#endif

#endif
