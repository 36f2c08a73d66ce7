# SPDX-License-Identifier: Apache-2.0
"""The environment and the options with which a build in a temporary folder finds what ccache keeps of the one
before. Meson calls ccache by itself; programs that tests compile go through kept_cc.c instead."""
import json
import os
import subprocess
import tempfile

KEEP = {"CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": tempfile.gettempdir(),
        "CCACHE_SLOPPINESS": "locale",  # dh sets another one
        "CCACHE_DIR": os.environ.get("CCACHE_DIR") or os.path.expanduser("~/.cache/ccache")}
SHARED = ("b_ndebug", "debug", "optimization", "warning_level", "werror")


def options_of(build):
    """Options of Meson with which the commands of a build are those of another one, where both lie directly
    in the folder of the sources: ccache has their objects then."""
    found = subprocess.run(["meson", "introspect", "--buildoptions", build], stdout=subprocess.PIPE,
                           text=True, check=True).stdout
    values = {option["name"]: option["value"] for option in json.loads(found)}
    return [f"-D{name}={str(values[name]).lower() if isinstance(values[name], bool) else values[name]}"
            for name in SHARED]
