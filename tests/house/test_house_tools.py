# SPDX-License-Identifier: Apache-2.0
"""The house tools find what they are there to find: every rule with a planted violation, and a clean tree passes."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import csource  # noqa: E402


class Tree(unittest.TestCase):
    """A small source tree in a temporary folder that the tools are run on."""

    tool = ""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.write("src/base/a.h", "int hetccl_a(void);\n")
        self.write("src/base/a.c", '#include "base/a.h"\n\nint hetccl_a(void)\n{\n    return 1;\n}\n')
        self.write("src/plan/b.c", '#include "base/a.h"\n')
        self.write("include/nccl.h", "typedef int ncclResult_t;\n")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_tool(self):
        return subprocess.run([sys.executable, str(ROOT / "tools" / self.tool), "--root", str(self.root)], check=False,
                              capture_output=True, text=True)

    def assert_clean(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")

    def assert_finds(self, text):
        done = self.run_tool()
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(text, done.stderr)


class CheckLayers(Tree):
    tool = "check-layers"

    def test_clean_tree(self):
        self.assert_clean()

    def test_upward_include(self):
        self.write("src/base/up.c", '#include "plan/p.h"\n')
        self.write("src/plan/p.h", "\n")
        self.assert_finds('src/base/up.c:1: base includes "plan/p.h", but may include only: nothing')

    def test_sideways_include(self):
        self.write("src/link/l.h", "\n")
        self.write("src/plan/side.c", '#include "base/a.h"\n/* text */ #include "link/l.h"\n# include "link/l.h"\n')
        self.assert_finds('src/plan/side.c:3: plan includes "link/l.h"')

    def test_commented_include_is_none(self):
        self.write("src/link/l.h", "\n")
        self.write("src/plan/c.c", '/*\n#include "link/l.h"\n*/\n// #include "link/l.h"\n')
        self.assert_clean()

    def test_cycle(self):
        self.write("src/base/x.h", '#include "base/y.h"\n')
        self.write("src/base/y.h", '#include "base/x.h"\n')
        self.assert_finds("include cycle: base/x.h -> base/y.h -> base/x.h")

    def test_unknown_folder(self):
        self.write("src/misc/m.c", "\n")
        self.assert_finds("'misc' is no folder of the table")

    def test_unresolved(self):
        self.write("src/base/z.c", '#include "base/absent.h"\n')
        self.assert_finds('"base/absent.h" is not below src or include')

    def test_public_header_below_the_api(self):
        self.write("src/exec/e.c", "#include <nccl.h>\n")
        self.assert_finds("exec includes the public header nccl.h; only api may")

    def test_impure_planner(self):
        self.write("src/plan/t.c", "#include <time.h>\n")
        self.assert_finds("plan is pure and includes <time.h>")

    def test_misplaced_call(self):
        self.write("src/base/g.c", 'char *f(void)\n{\n    return getenv("stderr");\n}\n')
        self.assert_finds("src/base/g.c:3: getenv belongs to src/base/config.c")

    def test_words_in_strings_and_comments_are_free(self):
        self.write("src/base/g.c", 'const char *text = "getenv"; /* getenv */\n')
        self.assert_clean()


def function(body, params="void"):
    return f"static int f({params})\n{{\n{body}    return 0;\n}}\n"


class CheckSizes(Tree):
    tool = "check-sizes"

    def test_clean_tree(self):
        self.assert_clean()

    def test_long_file(self):
        self.write("src/base/long.c", "int x;\n" * 1001)
        self.assert_finds("src/base/long.c: 1001 lines, at most 1000")

    def test_long_function(self):
        self.write("tests/long.c", function("    x++;\n" * 77))
        self.assert_finds("tests/long.c:1: f() has 81 lines, at most 80")
        self.write("tests/long.c", function("    x++;\n" * 76))
        self.assert_clean()

    def test_deep_function(self):
        deep = "    if (a)\n        for (;;)\n            while (b) {\n                do {\n%s                } while (c);\n            }\n"
        self.write("src/base/deep.c", function(deep % "                    switch (d) {\n                    }\n"))
        self.assert_finds("f() nests 5 deep, at most 4")
        self.write("src/base/deep.c", function(deep % "                    d++;\n"))
        self.assert_clean()

    def test_many_params(self):
        self.write("src/base/many.c", function("", "int a, int b, int c, int d, int e, int f, void (*g)(int, int), int h"))
        self.assert_finds("f() has 8 parameters, at most 7")
        self.write("src/base/many.c", "int pncclF(int a, int b, int c, int d, int e, int f, int g, int h)\n{\n    return 0;\n}\n")
        self.assert_clean()

    def test_long_functions_everywhere(self):
        self.write("src/base/many.c", function("    x++;\n" * 50) * 5)
        self.assert_finds("the 90th percentile of function length is 54 lines, at most 42")

    def test_macros(self):
        self.write("src/base/m.h", "#define ONE(x) (x)\n#define NONE (1)\n")
        self.assert_finds("1 function-like macros in")

    def test_unreadable(self):
        self.write("src/base/open.c", "int f(void)\n{\n")
        self.assert_finds("src/base/open.c:2: '{' is never closed")


class CheckDocs(Tree):
    tool = "check-docs"

    def test_clean_tree(self):
        self.write("docs/b.md", "# Some Words, here\n")
        self.write("README.md", "[b](docs/b.md#some-words-here) [c](https://example.org/x) `src/base/a.c` `hetccl_a()` `make x`\n")
        self.assert_clean()

    def test_dead_link(self):
        self.write("README.md", "\n[b](docs/absent.md)\n")
        self.assert_finds("README.md:2: links to docs/absent.md, which isn't there")

    def test_dead_anchor(self):
        self.write("docs/b.md", "# One\n[one](#one) [two](#two)\n")
        self.assert_finds("docs/b.md:2: links to #two, which has no such heading")

    def test_absent_file(self):
        self.write("docs/b.md", "`src/base/absent.c`\n")
        self.assert_finds("docs/b.md:1: names src/base/absent.c, which isn't there")

    def test_absent_function(self):
        self.write("docs/b.md", "`hetccl_absent()`\n")
        self.assert_finds("names hetccl_absent(), which is in no source")


class Reader(unittest.TestCase):
    """What the reader takes for a function."""

    def names(self, text):
        return [found.name for found in csource.parse("t.c", text).functions]

    def test_what_is_no_function(self):
        self.assertEqual(self.names("int f(void);\nstruct s { int a; };\nint t[] = {1, 2};\nint (*p)(int) = g;\n"
                                    "enum e { A = (1), B };\nstruct __attribute__((packed)) q { int b; };\n"
                                    "static const struct ops o = { .open = f, .x = (int[]){1} };\n"), [])

    def test_what_is_one(self):
        self.assertEqual(self.names("int f(void) { return 1; }\n"
                                    "__attribute__((target(\"avx2\"))) static void g(int a[static 2]) {}\n"
                                    "HETCCL_PRINTF(1, 2) void h(const char *format, ...) {}\n"
                                    "static void (*k(int a))(int) { return 0; }\n"
                                    "extern \"C\" {\nint l(void) { return sizeof(struct s); }\n}\n"
                                    "struct s m(void) { struct s v = {1, {2}}; return v; }\n"), ["f", "g", "h", "k", "l", "m"])

    def test_conditionals(self):
        self.assertEqual(self.names("#if A\nint f(void) {\n#else\nint f(int x) {\n#endif\n  return 1;\n}\n"
                                    "#ifdef B\nint g(void) { return 1; }\n#else\nint h(void) { return 2; }\n#endif\n"
                                    "#if 0\nit's not C {\"\n#endif\n".replace("it's", "its").replace('{"', "")), ["f", "g", "h"])

    def test_else_if_is_no_deeper(self):
        found = csource.parse("t.c", function("    if (a)\n        b();\n    else if (c)\n        d();\n    else if (e) {\n"
                                              "        f();\n    }\n")).functions
        self.assertEqual(found[0].nesting, 1)

    def test_labels_and_initializers(self):
        found = csource.parse("t.c", function("    struct s x = {{1}, {2}};\n    switch (a) {\n    case 1:\n        if (b)\n"
                                              "            c();\n        break;\n    default:\n        break;\n    }\n"
                                              "undo:\n    g((struct s){.h = {1}});\n")).functions
        self.assertEqual((found[0].nesting, found[0].n_lines), (2, 15))


if __name__ == "__main__":
    unittest.main()
