# SPDX-License-Identifier: Apache-2.0
"""Reads the data of CMSIS-NN's unit tests: a folder a case, with C headers that define numbers and arrays."""

import re

INCLUDE = re.compile(r'^#include "(\w+\.h)"', re.M)
CAST = re.compile(r"\(\w+\)\s*(?=[-\d.])")
NUMBER = re.compile(r"^#define (\w+) +((?:- ?)?[\w.+-]+)$", re.M)
NUMBERS = re.compile(r"^#define (\w+)\s+\{([^}]*)\}$", re.M)
ARRAY = re.compile(r"const (\w+?)(?:_t)? (\w+)\[[^=;]*\] =\s*\{([^}]*)\};")
NO_ARRAY = re.compile(r"const (\w+?)(?:_t)? \*\s*(?:const )?(\w+) = NULL;")
TYPES = {"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float32": "f32", "float16": "f16"}
TYPES |= {"q7": "i8", "q15": "i16", "q31": "i32"}
TRUTH = {"true": 1, "false": 0}


def numbers_of(text):
    """Of a list in C, without casts and suffixes."""
    text = re.sub(r"(?<=[\d.])[fFuUlL]+", "", text)
    words = [word.strip() for word in text.split(",") if word.strip()]
    return [float(w) if re.search(r"[.en]", w) else int(w) for w in words]


class Data:
    """A case: its numbers and arrays, without the name of the case in front."""

    def __init__(self, folder):
        self.name = folder.name
        head = (folder / "test_data.h").read_text()
        texts = [(folder / name).read_text() for name in INCLUDE.findall(head)]
        text = CAST.sub("", re.sub(r"\\\n", "", "\n".join(texts)))
        self.numbers, self.types, self.arrays = {}, {}, {}
        for name, value in NUMBER.findall(text):
            self.numbers[self.short(name)] = self.number(value)
        for name, values in NUMBERS.findall(text):
            self.numbers[self.short(name)] = numbers_of(values)
        for type_name, name, values in ARRAY.findall(text):
            self.types[self.short(name)] = TYPES[type_name]
            self.arrays[self.short(name)] = numbers_of(values)
        for type_name, name in NO_ARRAY.findall(text):
            self.types[self.short(name)] = TYPES[type_name]

    def short(self, name):
        """Some cases have macros of another case's name, which is shorter."""
        name = name.lower()
        head = self.name.lower() + "_"
        return name.removeprefix(head).removesuffix("_data")

    @staticmethod
    def number(word):
        if word in TRUTH:
            return TRUTH[word]
        word = word.replace(" ", "")
        word = word.removesuffix("f") if re.match(r"[-\d]", word) else word
        try:
            return int(word)
        except ValueError:
            pass
        try:
            return float(word)
        except ValueError:
            return word

    def __getattr__(self, name):
        if name in self.__dict__["numbers"]:
            return self.numbers[name]
        raise AttributeError(f"{self.name} has no {name}")

    def first(self, *names):
        """The number that has one of these names."""
        return next(self.numbers[name] for name in names if name in self.numbers)

    def array(self, *names):
        """Type and values of the array that has one of these names; None where the data says NULL."""
        for name in names:
            if name in self.arrays:
                return self.types[name], self.arrays[name]
        return (next((self.types[name] for name in names if name in self.types), None), None)
