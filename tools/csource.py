# SPDX-License-Identifier: Apache-2.0
"""A small reader of C source for the house tools: tokens, includes, macros, function definitions.

It knows comments, strings, continuation lines and conditional compilation. Braces that a conditional leaves unbalanced
(`#if A ... if (x) { #else ... if (y) { #endif`) are settled by reading the first branch of that conditional only.
"""

import re
from dataclasses import dataclass, field


class SourceError(Exception):
    """The file is not C as this reader knows it; the text names file and line."""


@dataclass
class Token:
    kind: str  # word, number, string, punct
    text: str
    line: int


@dataclass
class Directive:
    name: str
    text: str  # what follows the name, continuation lines joined
    line: int


@dataclass
class Function:
    name: str
    path: str
    first_line: int
    last_line: int
    n_params: int
    nesting: int

    @property
    def n_lines(self):
        return self.last_line - self.first_line + 1


@dataclass
class Source:
    path: str
    n_lines: int
    includes: list = field(default_factory=list)  # (form, name, line): form is '"' or '<'
    macros: list = field(default_factory=list)  # (name, line) of function-like macros
    tokens: list = field(default_factory=list)
    functions: list = field(default_factory=list)


_LEXER = re.compile(
    r"""(?P<space>[ \t\r\f\v]+|\\\n)
      | (?P<newline>\n)
      | (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<string>(?:u8|u|U|L)?"(?:\\.|[^"\\\n])*"|(?:u|U|L)?'(?:\\.|[^'\\\n])*')
      | (?P<word>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
      | (?P<punct>\.\.\.|->|[-+*/%&|^<>=!]=|<<=|>>=|\+\+|--|&&|\|\||<<|>>|\#\#|[-+*/%&|^<>=!~?:;,.(){}\[\]\#@$`\\])""",
    re.VERBOSE | re.DOTALL,
)

_OPEN = {"(": 1, "[": 1, "{": 1}
_CLOSE = {")": 1, "]": 1, "}": 1}


def _lex(path, text):
    """Tokens and directives in file order."""
    items, position, line, at_line_start = [], 0, 1, True
    while position < len(text):
        match = _LEXER.match(text, position)
        if match is None:
            raise SourceError(f"{path}:{line}: cannot read {text[position:position + 20]!r}")
        kind, piece, start = match.lastgroup, match.group(), line
        if kind == "punct" and piece == "#" and at_line_start:
            directive, position, line = _read_directive(text, match.end(), line)
            items.append(directive)
            continue
        position = match.end()
        line += piece.count("\n")
        if kind == "newline":
            at_line_start = True
        elif kind not in ("space", "comment"):
            at_line_start = False
            items.append(Token(kind, piece, start))
    return items


def _read_directive(text, position, line):
    start, parts = line, []
    while position < len(text) and text[position] != "\n":
        if text.startswith("\\\n", position):
            parts.append(" ")
            position, line = position + 2, line + 1
            continue
        if text.startswith("/*", position) or text.startswith("//", position):
            comment = _LEXER.match(text, position)
            if comment is None:
                break
            parts.append(" ")
            line += comment.group().count("\n")
            position = comment.end()
            continue
        parts.append(text[position])
        position += 1
    words = "".join(parts).strip()
    match = re.match(r"[A-Za-z_]+", words)
    name = match.group() if match else ""
    return Directive(name, words[len(name):].lstrip() if name != "define" else words[len(name):].strip(), start), position, line


class _Conditionals:
    """Turns items with conditionals into one stream of tokens whose brackets balance."""

    def __init__(self, path, items):
        self.path, self.items, self.position = path, items, 0

    def read(self):
        tokens = self._read_until(())
        if self.position < len(self.items):
            raise SourceError(f"{self.path}:{self.items[self.position].line}: #endif without #if")
        return tokens

    def _read_until(self, ends):
        tokens = []
        while self.position < len(self.items):
            item = self.items[self.position]
            if isinstance(item, Token):
                tokens.append(item)
            elif item.name in ("if", "ifdef", "ifndef"):
                tokens.extend(self._read_group(item))
                continue
            elif item.name in ("elif", "else", "endif"):
                if not ends:
                    return tokens
                if item.name in ends:
                    return tokens
            self.position += 1
        return tokens

    def _read_group(self, opening):
        branches = []
        dead = opening.name == "if" and opening.text.strip() == "0"
        while True:
            self.position += 1
            branch = self._read_until(("elif", "else", "endif"))
            branches.append([] if dead else branch)
            dead = False
            if self.position >= len(self.items):
                raise SourceError(f"{self.path}:{opening.line}: #{opening.name} without #endif")
            if self.items[self.position].name == "endif":
                self.position += 1
                break
        if all(_is_balanced(branch) for branch in branches):
            return [token for branch in branches for token in branch]
        return next((branch for branch in branches if branch), [])


def _is_balanced(tokens):
    depth = 0
    for token in tokens:
        depth += _OPEN.get(token.text, 0) - _CLOSE.get(token.text, 0)
        if depth < 0:
            return False
    return depth == 0


class _Definitions:
    """Finds function definitions at file level."""

    _NOT_NAMES = {"__attribute__", "_Alignas", "alignas", "__typeof__"}

    def __init__(self, path, tokens):
        self.path, self.tokens = path, tokens

    def find(self):
        functions, start, position = [], 0, 0
        while position < len(self.tokens):
            text = self.tokens[position].text
            if text in (";", "}"):
                start = position + 1
            elif text in ("(", "["):
                position = self.match(position)
            elif text == "{":
                end, function = self._read_brace(start, position)
                if function is not None:
                    functions.append(function)
                if function is not None or end == position:
                    start = end + 1
                position = end
            position += 1
        return functions

    def _read_brace(self, start, brace):
        """The position to go on from, and the function when this brace opens one."""
        head = self.tokens[start:brace]
        if any(token.kind == "string" for token in head) and head[0].text == "extern":
            return brace, None  # extern "C" {: go on inside
        group = None if self._is_initializer(start, brace) else self._find_params(start, brace)
        end = self.match(brace)
        if group is None:
            return end, None
        body = _Body(self, brace)
        return end, Function(
            self.tokens[group - 1].text, self.path, self.tokens[start].line, self.tokens[end].line,
            self._count_params(group), body.nesting())

    def _is_initializer(self, start, brace):
        position = start
        while position < brace:
            if self.tokens[position].text in ("(", "["):
                position = self.match(position)
            elif self.tokens[position].text == "=":
                return True
            position += 1
        return False

    def _find_params(self, start, brace):
        """The bracket that opens the parameter list: the first one after a name that is no attribute or macro."""
        fallback, position = None, start
        while position < brace:
            token = self.tokens[position]
            if token.text == "(":
                before = self.tokens[position - 1] if position > start else None
                if self.tokens[position + 1].text == "*":  # a function that returns a function pointer
                    inner = self._find_params(position + 1, self.match(position))
                    if inner is not None:
                        return inner
                elif before is not None and before.kind == "word" and before.text not in self._NOT_NAMES:
                    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", before.text):
                        return position
                    fallback = position
                position = self.match(position)
            position += 1
        return fallback

    def _count_params(self, group):
        end = self.match(group)
        inside = self.tokens[group + 1:end]
        if not inside or (len(inside) == 1 and inside[0].text == "void"):
            return 0
        count, position = 1, group + 1
        while position < end:
            text = self.tokens[position].text
            if text in _OPEN:
                position = self.match(position)
            elif text == ",":
                count += 1
            position += 1
        return count

    def match(self, position):
        """The position of the bracket that closes the one at position."""
        depth, start = 0, position
        while position < len(self.tokens):
            text = self.tokens[position].text
            depth += _OPEN.get(text, 0) - _CLOSE.get(text, 0)
            if depth == 0:
                return position
            position += 1
        raise SourceError(f"{self.path}:{self.tokens[start].line}: '{self.tokens[start].text}' is never closed")


class _Body:
    """Reads the statements of one function for the deepest nesting of control statements and blocks (the body is 0)."""

    def __init__(self, owner, brace):
        self.owner, self.tokens, self.position, self.deepest = owner, owner.tokens, brace, 0

    def nesting(self):
        self._block(0)
        return self.deepest

    def _text(self, ahead=0):
        index = self.position + ahead
        return self.tokens[index].text if index < len(self.tokens) else ""

    def _block(self, level):
        self.position += 1
        while self._text() != "}":
            if self.position >= len(self.tokens):
                raise SourceError(f"{self.owner.path}: the last function never ends")
            self._statement(level)
        self.position += 1

    def _under(self, level):
        """The statement that a control statement at this level governs."""
        self.deepest = max(self.deepest, level + 1)
        if self._text() == "{":
            self._block(level + 1)
        else:
            self._statement(level + 1)

    def _brackets(self):
        if self._text() == "(":
            self.position = self.owner.match(self.position) + 1

    def _statement(self, level):
        text = self._text()
        if text == "{":
            self.deepest = max(self.deepest, level + 1)
            self._block(level + 1)
        elif text == "if":
            self._if(level)
        elif text in ("for", "while", "switch"):
            self.position += 1
            self._brackets()
            self._under(level)
        elif text == "do":
            self.position += 1
            self._under(level)
            self._simple()
        elif text == "else":  # its if lies in another branch of a conditional
            self.position += 1
            self._under(level)
        elif text in ("case", "default") or (self._text(1) == ":" and self.tokens[self.position].kind == "word"):
            self._label()
        else:
            self._simple()

    def _if(self, level):
        self.position += 1
        self._brackets()
        self._under(level)
        if self._text() != "else":
            return
        self.position += 1
        if self._text() == "if":
            self._if(level)  # else if: a chain, no deeper
        else:
            self._under(level)

    def _label(self):
        while self._text() not in (":", ";", "}", ""):
            self.position += 1
        if self._text() == ":":
            self.position += 1

    def _simple(self):
        """To the end of an expression or declaration; braces in it are initializers."""
        while self._text() not in (";", "}", ""):
            if self._text() in _OPEN:
                self.position = self.owner.match(self.position)
            self.position += 1
        if self._text() == ";":
            self.position += 1


def parse(path, text):
    """A Source; raises SourceError."""
    items = _lex(path, text)
    source = Source(path, text.count("\n") + (0 if text.endswith("\n") or not text else 1))
    for item in items:
        if not isinstance(item, Directive):
            continue
        if item.name == "include":
            match = re.match(r'["<]([^">]+)[">]', item.text)
            if match:
                source.includes.append((item.text[0], match.group(1), item.line))
        elif item.name == "define":
            match = re.match(r"([A-Za-z_]\w*)\(", item.text)
            if match:
                source.macros.append((match.group(1), item.line))
    source.tokens = _Conditionals(path, items).read()
    source.functions = _Definitions(path, source.tokens).find()
    return source


def parse_file(path, shown_path=None):
    with open(path, encoding="utf-8") as file:
        return parse(shown_path or str(path), file.read())
