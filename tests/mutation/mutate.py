"""Finds what can be changed in the sources, with clang's syntax tree, and writes every change into them at once.

A change is an insertion that keeps the lines: `a < b` becomes `st_mutant::lt(17, a, b)`, which mutant.hpp evaluates as
before unless mutant 17 (or 18) is the active one. A site is known by its file, function, operator and text, not by its
line, so that the list of equivalent mutants survives edits elsewhere.
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from clang.cindex import CursorKind, Index, TypeKind

COMPARISONS = {'<': ('lt', '<='), '<=': ('le', '<'), '>': ('gt', '>='), '>=': ('ge', '>'), '==': ('eq', None),
               '!=': ('ne', None)}
ARITHMETIC = {'+': ('add', '-'), '-': ('sub', '+'), '*': ('mul', '+'), '&': ('bit_and', '|'), '|': ('bit_or', '&')}
INTEGERS = {TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.LONGLONG, TypeKind.ULONGLONG,
            TypeKind.SHORT, TypeKind.USHORT, TypeKind.UCHAR, TypeKind.SCHAR}
FUNCTIONS = {CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR,
             CursorKind.FUNCTION_TEMPLATE, CursorKind.CONVERSION_FUNCTION}
LEAVES = {CursorKind.DECL_REF_EXPR, CursorKind.MEMBER_REF_EXPR, CursorKind.INTEGER_LITERAL,
          CursorKind.CXX_BOOL_LITERAL_EXPR, CursorKind.CXX_NULL_PTR_LITERAL_EXPR}
SYMMETRIC = {'swap', 'checked_add', 'checked_mul'}
NORETURN = re.compile(r'^(fail\w*|wrong\w*|refuse\w*|rethrow\w*|throw\w*|abort|std::abort|std::rethrow_exception)$')


@dataclass
class Mutant:
    file: str
    line: int
    function: str
    operator: str
    text: str
    ordinal: int = 0  # of several alike in one function
    number: int = -1
    key: str = ''


@dataclass
class Source:
    """Insertions into one file. Those of an outer node enclose those of the inner ones at the same offset."""
    text: bytes
    opens: dict = field(default_factory=dict)
    closes: dict = field(default_factory=dict)
    replaced: dict = field(default_factory=dict)

    def wrap(self, begin, end, before, after):
        self.opens.setdefault(begin, []).append(before)
        self.closes.setdefault(end, []).insert(0, after)

    def replace(self, begin, end, text):
        self.replaced[begin] = (end, text)

    def result(self):
        out, at = [], 0
        marks = sorted(set(self.opens) | set(self.closes) | set(self.replaced))
        for mark in marks:
            if mark < at:
                continue  # inside of a text that was replaced
            out.append(self.text[at:mark])
            at = mark
            out += [t.encode() for t in self.closes.get(mark, [])]
            out += [t.encode() for t in self.opens.get(mark, [])]
            if mark in self.replaced:
                at, text = self.replaced[mark]
                out.append(text.encode())
        out.append(self.text[at:])
        return b''.join(out)


def macro_calls(text):
    """Where something like S_ISREG(...) stands, to its closing parenthesis. clang would tell, at ten times the time."""
    found = []
    for match in re.finditer(rb'\b[A-Z_][A-Z0-9_]{2,}\s*\(', text):
        depth, at = 1, match.end()
        while depth > 0 and at < len(text):
            depth += {40: 1, 41: -1}.get(text[at], 0)
            at += 1
        found.append((match.start(), at))
    return found


class Finder:
    def __init__(self, root, folders, arguments):
        self.root = Path(root)
        self.folders = folders
        self.arguments = arguments
        self.index = Index.create()
        self.seen = set()
        self.mutants = []
        self.sites = []  # (mutants of the site, edit to apply to the source)
        self.texts = {}
        self.macros = {}
        self.names = {}  # as clang spells them -> below the root, or None

    def add_file(self, path):
        unit = self.index.parse(str(self.root / path), args=self.arguments)
        # clang's own headers may be another version's: only errors in our files matter
        wrong = [str(d) for d in unit.diagnostics if d.severity >= 3 and d.location.file is not None and
                 str(self.root) in d.location.file.name]
        if wrong:
            raise SystemExit('\n'.join(wrong[:5]))
        found = set()
        for cursor in unit.cursor.get_children():
            name = self.file_of(cursor)
            if name is not None and name not in self.seen:
                found.add(name)
                self.visit_declaration(name, cursor)
        self.seen |= found

    def file_of(self, cursor):
        file = cursor.location.file
        if file is None:
            return None
        if file.name not in self.names:
            path = Path(file.name).resolve()
            name = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else ''
            self.names[file.name] = name if name.startswith(tuple(f + '/' for f in self.folders)) else None
        return self.names[file.name]

    def text(self, name):
        if name not in self.texts:
            self.texts[name] = (self.root / name).read_bytes()
            self.macros[name] = macro_calls(self.texts[name])
        return self.texts[name]

    def visit_declaration(self, name, cursor):
        if cursor.kind in FUNCTIONS:
            if cursor.is_definition() and not self.spelled_of(name, cursor).startswith('consteval '):
                self.name, self.function = name, cursor.spelling or '?'
                self.result = cursor.result_type.get_canonical().kind
                for child in cursor.get_children():
                    if child.kind == CursorKind.COMPOUND_STMT or child.kind.is_expression():
                        self.visit(child, [cursor])
            return
        for child in cursor.get_children():
            self.visit_declaration(name, child)

    # ---- the sites ---------------------------------------------------------------------------------------------------

    def span(self, cursor):
        return cursor.extent.start.offset, cursor.extent.end.offset

    def in_macro(self, begin, end):
        self.text(self.name)
        return any(b < end and begin < e for b, e in self.macros[self.name])

    def spelled_of(self, name, cursor):
        begin, end = self.span(cursor)
        return self.text(name)[begin:end].decode()

    def spelled(self, cursor):
        return self.spelled_of(self.name, cursor)

    def site(self, cursor, changes, edit):
        """`changes`: (operator, text) of each mutant; `edit(source, numbers)` writes them."""
        line = cursor.extent.start.line
        mutants = []
        for operator, text in changes:
            text = re.sub(r'\s+', ' ', text)
            mutants.append(Mutant(self.name, line, self.function, operator, text[:160]))
        self.sites.append((mutants, edit))
        self.mutants += mutants

    def wrap(self, cursor, changes, before, after):
        begin, end = self.span(cursor)
        self.site(cursor, changes, lambda source, n: source.wrap(begin, end, before.format(*n), after))

    def visit(self, cursor, parents):
        kind = cursor.kind
        if self.file_of(cursor) != self.name:
            return
        begin, end = self.span(cursor)
        if kind == CursorKind.STATIC_ASSERT or self.in_macro(begin, end) and kind != CursorKind.COMPOUND_STMT and \
                not self.holds_macro(begin, end):
            return
        if kind == CursorKind.VAR_DECL and 'constexpr' in self.spelled(cursor).split('=')[0]:
            return
        if kind.is_declaration() and kind not in (CursorKind.VAR_DECL,) and kind in FUNCTIONS:
            return
        frozen = self.mutate(cursor, kind, parents)
        if frozen:
            return
        children = list(cursor.get_children())
        constant = kind == CursorKind.CASE_STMT or kind == CursorKind.IF_STMT and self.is_constexpr(cursor)
        for child in children:
            if constant and child == children[0]:
                continue
            self.visit(child, parents + [cursor])

    def holds_macro(self, begin, end):
        """Whether a macro is only a part of the node: then the rest of it can be changed."""
        return all(not (b <= begin and end <= e) for b, e in self.macros[self.name])

    def mutate(self, cursor, kind, parents):
        if self.in_macro(*self.span(cursor)) and kind not in (
                CursorKind.COMPOUND_STMT, CursorKind.IF_STMT, CursorKind.FOR_STMT, CursorKind.WHILE_STMT,
                CursorKind.DO_STMT, CursorKind.CXX_FOR_RANGE_STMT, CursorKind.CXX_TRY_STMT, CursorKind.SWITCH_STMT,
                CursorKind.LAMBDA_EXPR, CursorKind.DECL_STMT, CursorKind.VAR_DECL, CursorKind.RETURN_STMT):
            return False
        parent = parents[-1]
        self.statement(cursor, kind, parent)
        if kind in (CursorKind.IF_STMT, CursorKind.WHILE_STMT):
            self.condition(cursor, kind)
        elif kind == CursorKind.CONDITIONAL_OPERATOR:
            test = next(cursor.get_children())
            self.wrap(test, [('negate ?:', self.spelled(test))], 'st_mutant::flip({0}, ', ')')
        elif kind == CursorKind.BINARY_OPERATOR:
            self.binary(cursor)
        elif kind == CursorKind.RETURN_STMT:
            self.returned(cursor)
        elif kind == CursorKind.DECL_STMT:
            self.lock(cursor)
        elif kind == CursorKind.CALL_EXPR:
            return self.call(cursor, parent)
        elif kind == CursorKind.INTEGER_LITERAL and parent.kind in (CursorKind.CALL_EXPR, CursorKind.BINARY_OPERATOR):
            self.wrap(cursor, [('literal + 1', self.line_text(cursor))], 'st_mutant::plus_one({0}, ', ')')
        elif kind == CursorKind.CXX_BOOL_LITERAL_EXPR and parent.kind == CursorKind.CALL_EXPR:
            self.wrap(cursor, [('flip bool', self.line_text(cursor))], 'st_mutant::flip({0}, ', ')')
        return False

    def line_text(self, cursor):
        text = self.text(self.name)
        begin, end = self.span(cursor)
        return f"{text[begin:end].decode()} in {text.splitlines()[cursor.extent.start.line - 1].decode().strip()}"

    def is_constexpr(self, cursor):
        return self.spelled(cursor).startswith('if constexpr')

    def condition(self, cursor, kind):
        children = list(cursor.get_children())
        if kind == CursorKind.IF_STMT and self.is_constexpr(cursor):
            return
        if any(c.kind == CursorKind.VAR_DECL for c in children[:1]):
            return
        test = next((c for c in children if c.kind.is_expression()), None)
        if test is None or self.in_macro(*self.span(test)):
            return
        text = self.text(self.name)
        if text[:test.extent.start.offset].rstrip()[-1:] not in (b'(', b';'):
            return
        shown = self.spelled(test)
        word = 'if' if kind == CursorKind.IF_STMT else 'while'
        self.wrap(test, [(f'{word} never', shown)], '!st_mutant::on({0}) && (', ')')
        if kind == CursorKind.IF_STMT:
            self.wrap(test, [('if always', shown)], 'st_mutant::on({0}) || (', ')')

    def binary(self, cursor):
        children = list(cursor.get_children())
        if len(children) != 2:
            return
        left, right = children
        text = self.text(self.name)
        begin, end = left.extent.end.offset, right.extent.start.offset
        operator = text[begin:end].decode().strip()
        shown = self.spelled(cursor)
        if operator in ('&&', '||'):
            # the operand counts for nothing
            neutral = 'st_mutant::on({0}) || (' if operator == '&&' else '!st_mutant::on({0}) && ('
            for side, word in ((left, 'left'), (right, 'right')):
                begin, end = self.span(side)
                self.site(cursor, [(f'drop {word} of {operator}', shown)],
                          lambda source, n, b=begin, e=end: source.wrap(b, e, '(' + neutral.format(*n), '))'))
            return
        table = COMPARISONS if operator in COMPARISONS else ARITHMETIC
        if operator not in table:
            return
        name, other = table[operator]
        changes = [(f'{operator} to {other}', shown)] if other else []
        if table is COMPARISONS:
            changes.append((f'negate {operator}', shown))
        self.infix(cursor, changes, name, left, right)

    def infix(self, cursor, changes, name, left, right):
        whole, gap = self.span(cursor), (left.extent.end.offset, right.extent.start.offset)
        between = self.text(self.name)[gap[0]:gap[1]].decode()
        lines = '\n' * between.count('\n')

        def edit(source, n):
            source.wrap(*whole, f'st_mutant::{name}({n[0]}, ', ')')
            source.replace(gap[0], gap[1], ', ' + lines)
        self.site(cursor, changes, edit)

    def returned(self, cursor):
        value = next(cursor.get_children(), None)
        if value is None or self.in_macro(*self.span(value)):
            return
        kind = value.type.get_canonical().kind
        if kind == TypeKind.BOOL:
            self.wrap(value, [('return the opposite', self.spelled(value))], 'st_mutant::flip({0}, ', ')')
        elif kind in INTEGERS:
            self.wrap(value, [('return + 1', self.spelled(value))], 'st_mutant::plus_one({0}, ', ')')

    def lock(self, cursor):
        match = re.match(r'(const )?std::(lock_guard|scoped_lock) \w+\(', self.spelled(cursor))
        if match is None:
            return
        begin = cursor.extent.start.offset
        first, last = begin + len(match.group(1) or ''), begin + match.end()
        name = self.spelled(cursor)[match.end():].rstrip(';)')
        variable = match.group(0).split()[-1]

        def edit(source, n):
            source.replace(first, last, f'st_mutant::LockGuard {variable}{n[0]}, ')
        self.site(cursor, [('remove lock', name)], edit)

    def statement(self, cursor, kind, parent):
        block = parent.kind == CursorKind.COMPOUND_STMT
        body = parent.kind in (CursorKind.IF_STMT, CursorKind.FOR_STMT, CursorKind.WHILE_STMT,
                               CursorKind.CXX_FOR_RANGE_STMT) and self.is_body(cursor, parent)
        if not block and not body:
            return
        text = self.text(self.name)
        begin, end = self.span(cursor)
        if kind == CursorKind.BINARY_OPERATOR:
            children = list(cursor.get_children())
            between = text[children[0].extent.end.offset:children[1].extent.start.offset].strip()
            if between != b'=':
                return
        elif kind == CursorKind.CALL_EXPR:
            if NORETURN.match(cursor.spelling or '') or NORETURN.match(self.spelled(cursor).split('(')[0]):
                return
        elif kind == CursorKind.RETURN_STMT:
            if any(True for _ in cursor.get_children()) or not body:
                return
        elif kind not in (CursorKind.COMPOUND_ASSIGNMENT_OPERATOR, CursorKind.UNARY_OPERATOR, CursorKind.CONTINUE_STMT,
                          CursorKind.BREAK_STMT):
            return
        stop = text.find(b';', end)
        if stop < 0 or text[end:stop].strip():
            return
        self.site(cursor, [('remove statement', self.spelled(cursor))],
                  lambda source, n: source.wrap(begin, stop + 1, '{ if (!st_mutant::on(%d)) ' % n[0], ' }'))

    def is_body(self, cursor, parent):
        children = list(parent.get_children())
        if parent.kind == CursorKind.IF_STMT:
            first = next((i for i, c in enumerate(children) if c.kind.is_expression()), 0)
            return any(cursor == c for c in children[first + 1:])
        return cursor == children[-1]

    def call(self, cursor, parent):
        spelling = cursor.spelling or ''
        shown = self.spelled(cursor)
        if spelling in ('operator==', 'operator!=', 'operator<', 'operator>', 'operator<=', 'operator>='):
            children = [c for c in cursor.get_children()]
            operator = spelling[8:]
            sides = [c for c in children if self.spelled(c).strip() != operator]
            if len(sides) == 2 and sides[0].extent.end.offset < sides[1].extent.start.offset and \
                    operator in ('==', '!='):
                between = self.text(self.name)[sides[0].extent.end.offset:sides[1].extent.start.offset]
                if between.decode().strip() == operator:
                    self.infix(cursor, [(f'negate {operator}', shown)], COMPARISONS[operator][0], *sides)
            return False
        if spelling.startswith('operator') or '(' not in shown:
            return False
        match = re.match(r'std::(min|max)(<[^()]*>)?\(', shown)
        if match and not shown[match.end():].startswith('{'):
            begin = cursor.extent.start.offset
            name, template = match.group(1), match.group(2) or ''
            other = 'max' if name == 'min' else 'min'
            self.site(cursor, [(f'{name} to {other}', shown)],
                      lambda source, n: source.replace(begin, begin + match.end(),
                                                       f'st_mutant::{name}{template}({n[0]}, '))
            return False
        if NORETURN.match(spelling) or NORETURN.match(shown.split('(')[0]):
            return False
        kind = cursor.type.get_canonical().kind
        used = parent.kind not in (CursorKind.COMPOUND_STMT, CursorKind.IF_STMT, CursorKind.FOR_STMT,
                                   CursorKind.WHILE_STMT, CursorKind.CXX_FOR_RANGE_STMT)
        if used and (kind in INTEGERS or kind == TypeKind.BOOL):
            self.wrap(cursor, [('result 0', shown)], '(st_mutant::on({0}) ? 0 : ', ')')
        arguments = list(cursor.get_arguments())
        if len(arguments) >= 2 and spelling not in SYMMETRIC and all(self.leaf(a) for a in arguments):
            return self.swap(cursor, arguments, shown)
        return False

    def leaf(self, cursor):
        while cursor is not None and cursor.kind == CursorKind.UNEXPOSED_EXPR:
            children = list(cursor.get_children())
            cursor = children[0] if len(children) == 1 else None
        return cursor is not None and cursor.kind in LEAVES and re.fullmatch(r'[\w.:>-]+', self.spelled(cursor))

    def swap(self, cursor, arguments, shown):
        def plain(a):
            t = a.type.get_canonical()
            return t.spelling.replace('const ', '').rstrip('& ')
        for a, b in zip(arguments, arguments[1:]):
            if plain(a) == plain(b) and self.spelled(a) != self.spelled(b):
                begin, end = self.span(cursor)
                (ab, ae), (bb, be) = self.span(a), self.span(b)
                text = self.text(self.name)
                other = (text[begin:ab] + text[bb:be] + text[ae:bb] + text[ab:ae] + text[be:end]).decode()
                flat = other.replace('\n', ' ')
                self.site(cursor, [('swap arguments', shown)],
                          lambda source, n: source.wrap(begin, end, f'(st_mutant::on({n[0]}) ? {flat} : ', ')'))
                return True
        return False


def number(finder):
    """Gives every mutant its number and its key."""
    counts = {}
    for i, mutant in enumerate(finder.mutants):
        mutant.number = i
        same = (mutant.file, mutant.function, mutant.operator, mutant.text)
        mutant.ordinal = counts[same] = counts.get(same, 0) + 1
        mutant.key = '\t'.join((*same, str(mutant.ordinal)))


def sample(mutants, wanted, least, seed):
    """At least `least` of every file, and the rest where the code is: the same choice for the same code and seed."""
    def rank(mutant):
        return hashlib.sha256((seed + mutant.key).encode()).digest()
    ordered = sorted(mutants, key=rank)
    taken, per_file = [], {}
    for mutant in ordered:
        if per_file.get(mutant.file, 0) < least:
            per_file[mutant.file] = per_file.get(mutant.file, 0) + 1
            taken.append(mutant)
    chosen = {m.number for m in taken}
    for mutant in ordered:
        if len(taken) >= wanted:
            break
        if mutant.number not in chosen:
            taken.append(mutant)
    return taken


def write(finder, tree, without):
    """Writes the mutated files into `tree`; mutants in `without` (those that do not compile) are left out."""
    sources = {}
    for mutants, edit in finder.sites:
        if any(m.number in without for m in mutants):
            continue
        name = mutants[0].file
        source = sources.setdefault(name, Source(finder.text(name)))
        edit(source, [m.number for m in mutants])
    for name in {m.file for m in finder.mutants}:
        target = Path(tree) / name
        text = sources[name].result() if name in sources else finder.text(name)
        if not target.exists() or target.read_bytes() != text:
            target.write_bytes(text)
