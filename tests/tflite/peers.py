# SPDX-License-Identifier: Apache-2.0
"""Counts the cases of other projects: passed, refused with their reasons, and wrong, for each operator."""

import collections
import re

LEAST = 0.95  # of all cases must pass


def reason_of(message):
    """What a message says, without the names of tensors."""
    line = next((part for part in message.splitlines() if "error" in part), message.splitlines()[0])
    return re.sub(r"'[^']*'", "'...'", re.sub(r"^.*?error\S*:? *", "", line))[:120]


class Tally:
    def __init__(self, title):
        self.title = title
        self.rows = collections.defaultdict(collections.Counter)
        self.refused = collections.defaultdict(list)

    def passed(self, kind):
        self.rows[kind]["passed"] += 1

    def refuse(self, kind, name, why):
        self.rows[kind]["refused"] += 1
        self.refused[f"{kind}: {why}"].append(name)

    def wrong(self, kind, name, what):
        self.rows[kind]["wrong"] += 1
        print(f"wrong: {kind} {name}: {what}", flush=True)

    def total(self, column):
        return sum(row[column] for row in self.rows.values())

    def report(self):
        """Prints the counts. True: nothing is wrong, and enough passed."""
        print(f"{self.title:36} {'passed':>8} {'refused':>8} {'wrong':>8}")
        for kind, row in sorted(self.rows.items()):
            print(f"{kind:36} {row['passed']:8} {row['refused']:8} {row['wrong']:8}")
        passed, refused, wrong = (self.total(column) for column in ("passed", "refused", "wrong"))
        print(f"{'all':36} {passed:8} {refused:8} {wrong:8}")
        for why, names in sorted(self.refused.items()):
            print(f"refused: {why} ({len(names)}: {', '.join(names[:4])}{', ...' if names[4:] else ''})")
        count = passed + refused + wrong
        print(f"{self.title}: {passed} of {count} passed ({100 * passed / max(count, 1):.1f} %)", flush=True)
        return wrong == 0 and passed >= LEAST * count and count != 0
