// SPDX-License-Identifier: Apache-2.0
// The tables of filters, tests, functions and methods, made of their .def files.
#include "compiler/template/tpl_run.h"
#include <string.h>

#define ROW(name, parameters, least, fn) {name, parameters, least, fn},
#define END                                                                                                  \
    {                                                                                                        \
        NULL, NULL, 0, NULL                                                                                  \
    }

const TplFunction tpl_filters[] = {
#define FILTER ROW
#include "compiler/template/tpl_filters.def"
    END};
const TplFunction tpl_tests[] = {
#define TEST ROW
#include "compiler/template/tpl_tests.def"
    END};
const TplFunction tpl_functions[] = {
#define FUNCTION ROW
#include "compiler/template/tpl_functions.def"
    END};

// A method is a row of the table of its kind, and nothing in the others.
#define NOTHING(name, parameters, least, fn)
#define METHOD_text                             ROW
#define METHOD_list                             NOTHING
#define METHOD_dict                             NOTHING
#define METHOD_loop                             NOTHING
#define METHOD(of, name, parameters, least, fn) METHOD_##of(name, parameters, least, fn)
const TplFunction tpl_text_methods[] = {
#include "compiler/template/tpl_methods.def"
    END};
#undef METHOD_text
#undef METHOD_list
#define METHOD_text                             NOTHING
#define METHOD_list                             ROW
#define METHOD(of, name, parameters, least, fn) METHOD_##of(name, parameters, least, fn)
const TplFunction tpl_list_methods[] = {
#include "compiler/template/tpl_methods.def"
    END};
#undef METHOD_list
#undef METHOD_dict
#define METHOD_list                             NOTHING
#define METHOD_dict                             ROW
#define METHOD(of, name, parameters, least, fn) METHOD_##of(name, parameters, least, fn)
const TplFunction tpl_dict_methods[] = {
#include "compiler/template/tpl_methods.def"
    END};
#undef METHOD_dict
#undef METHOD_loop
#define METHOD_dict                             NOTHING
#define METHOD_loop                             ROW
#define METHOD(of, name, parameters, least, fn) METHOD_##of(name, parameters, least, fn)
const TplFunction tpl_loop_methods[] = {
#include "compiler/template/tpl_methods.def"
    END};

const TplFunction *tpl_find_function(const TplFunction *table, TplText name)
{
    for (; table->name != NULL; table++)
        if (tpl_text_is(name, table->name))
            return table;
    return NULL;
}
