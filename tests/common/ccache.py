# SPDX-License-Identifier: Apache-2.0
"""The environment with which a build in a temporary folder finds what ccache keeps of the one before. Meson
calls ccache by itself; programs that tests compile go through kept_cc.c instead."""
import os
import tempfile

KEEP = {"CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": tempfile.gettempdir(),
        "CCACHE_DIR": os.environ.get("CCACHE_DIR") or os.path.expanduser("~/.cache/ccache")}
