# SPDX-License-Identifier: Apache-2.0
"""Templates as transformers runs them: jinja2's immutable sandbox with its options, filters and functions."""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %}: a block whose text is what it says, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_text")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env


ENVIRONMENT = environment()


def is_complete(text):
    """False: there are no such filters; jinja2 says so at once, rlxc when it gets there."""
    try:
        ENVIRONMENT.from_string(text)
    except jinja2.exceptions.TemplateAssertionError:
        return False
    except jinja2.exceptions.TemplateError:
        pass
    return True


def render(text, variables):
    """The text, or None where the template fails."""
    try:
        return ENVIRONMENT.from_string(text).render(**variables)
    except (
        jinja2.exceptions.TemplateError,
        TypeError,
        ValueError,
        ZeroDivisionError,
        OverflowError,
        AttributeError,
        KeyError,
        RecursionError,
    ):
        return None
