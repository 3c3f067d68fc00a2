"""Finds places where Rust code can be broken: what `scripts/mutants` tries.

The text is read by patterns, not parsed: rustfmt has set the blanks. What does not compile is dropped later.
"""

import re
from dataclasses import dataclass

SWAPS = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "+=",
    "|": "&", "&": "|", "^": "|", "<<": ">>", ">>": "<<",
}
OPERATOR = re.compile(r"(?<=\s)(" + "|".join(map(re.escape, sorted(SWAPS, key=len, reverse=True))) + r")(?=\s)")
EXTREME = re.compile(r"(?<=\.)(min|max)(?=(_by_key|_by)?\()")
NOT = re.compile(r"(?<=[\s(|])!(?=[\w(*])")
STATEMENT = re.compile(r"(?<=[;{}])\s*\n\s*(?=\*?[a-z]\w*(?:\.\w+)*(?:\(|\.\w+ [-+]?= ))")
FUNCTION = re.compile(r"\b(const )?(?:unsafe )?fn (\w+)")
# What stands to the left of an expression.
LEAD = re.compile(r"(\b(?:if|while|match|return|else|in|break|let|move|unsafe|for)|(?<![=<>!+\-*/%|&^])=|=>|[+\-*/%|&^]=)\s$")
# After these, a brace opens a block; elsewhere, it may belong to a value.
BEFORE_BLOCKS = ("if", "while", "match", "in", "&&", "||")
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\(?:x..|u\{[^}]*\}|.)|[^\'\\\n])\'', re.DOTALL
)
OPEN, CLOSE = "([{", ")]}"


@dataclass
class Place:
    """A change in one place of a text: an expression, a statement, or the begin of a function (of no length)."""

    begin: int
    end: int
    line: int
    # For people, and for the list of faults that change nothing.
    was: str
    becomes: str
    # The code of the change; `None` leaves the statement out.
    code: str | None


def is_test(file):
    """Whether a file has only tests."""
    return re.search(r"(^|/)tests?(\.rs|/)", file) is not None


def find(text):
    """All places of a text, outer ones first; of two that overlap without one inside the other, the first."""
    plain, code = without_comments(text)
    body, functions = bodies(code)
    found = {}

    def add(begin, end, code, was=None, becomes=None):
        was, becomes = was or squeezed(plain[begin:end]), becomes or squeezed(code)
        place = Place(begin, end, text.count("\n", 0, begin) + 1, was, becomes, code)
        found.setdefault((begin, end, code), place)

    for begin, end, name, kind in functions:
        for value in values(kind):
            if squeezed(plain[begin:end]) != value:
                code = f"return {value}".strip()
                add(begin, begin, code, f"fn {name}", code)
    for it in OPERATOR.finditer(body):
        before = body[: it.start()].rstrip()
        # Not the arguments of a closure.
        if not (it[1] in ("||", "|") and before.endswith(("(", ",", "=", "|", "{", "move"))):
            change(plain, body, it.span(), SWAPS[it[1]], add)
    for it in EXTREME.finditer(body):
        change(plain, body, it.span(), "max" if it[1] == "min" else "min", add)
    for it in NOT.finditer(body):
        change(plain, body, it.span(), "", add)
    for it in STATEMENT.finditer(body):
        begin = it.end()
        end, stop = right(body, begin, is_logic=True)
        if stop == ";" and not re.search(r"\?|\breturn\b", body[begin:end]):
            add(begin, end, None, becomes="nothing")

    places = []
    for place in sorted(found.values(), key=lambda it: (it.begin, -it.end)):
        if not any(it.begin < place.begin < it.end < place.end for it in places[-40:]):
            places.append(place)
    return places


def change(plain, body, span, new, add):
    """Adds the expression around an operator with `new` in the operator's place."""
    is_logic = plain[slice(*span)] in ("&&", "||")
    first, lead = left(body, span[0], is_logic)
    last, stop = right(body, span[1], is_logic)
    # A pattern; or a value whose fields follow.
    if lead == "let" or stop == "=>" and lead != "if" or stop == "{" and lead not in BEFORE_BLOCKS:
        return
    last = len(body[:last].rstrip())
    # A string over several lines cannot go into one line.
    if first < span[0] + 1 and span[1] <= last and not re.search(r'"[^"]*\n[^"]*"', plain[first:last]):
        changed = plain[first : span[0]] + new + plain[span[1] : last]
        add(first, last, re.sub(r"\s*\n\s*", " ", changed))


def left(body, at, is_logic):
    """Where the expression around `at` begins, and what stands before it."""
    depth = 0
    while at > 0:
        sign = body[at - 1]
        if sign in CLOSE:
            if depth == 0 and sign == "}" and re.match(r"\s*\n", body[at : at + 100]):
                return skip_blanks(body, at), sign
            depth += 1
        elif sign in OPEN:
            if depth == 0:
                return skip_blanks(body, at), sign
            depth -= 1
        elif depth == 0:
            is_field = sign == ":" and body[at] == " "
            is_arguments = sign == "|" and not body[at - 2].isspace() and body[at] == " "
            if sign in ",;" or is_field or is_arguments:
                return skip_blanks(body, at), sign
            if not is_logic and body[at - 2 : at] in ("&&", "||"):
                return skip_blanks(body, at), body[at - 2 : at]
            lead = LEAD.search(body[max(0, at - 12) : at])
            if lead:
                return skip_blanks(body, at), lead[1]
        at -= 1
    return 0, ""


def right(body, at, is_logic):
    """Where the expression around `at` ends, and what stands after it."""
    depth = 0
    while at < len(body):
        sign = body[at]
        if sign in OPEN:
            if depth == 0 and sign == "{":
                return at, sign
            depth += 1
        elif sign in CLOSE:
            if depth == 0:
                return at, sign
            depth -= 1
        elif depth == 0:
            if sign in ",;":
                return at, sign
            for stop in ("=>", " else ", *(() if is_logic else ("&&", "||"))):
                if body.startswith(stop, at):
                    return at, stop
        at += 1
    return at, ""


def skip_blanks(body, at):
    while body[at].isspace():
        at += 1
    return at


def values(kind):
    """What a function with this type of result may return at once."""
    if kind == "bool":
        return ["true", "false"]
    if re.fullmatch(r"[ui](8|16|32|64|128|size)", kind):
        return ["0", "1"]
    if kind.startswith("Option<"):
        return ["None"]
    if kind.startswith("Result<()") or kind == "fmt::Result":
        return ["Ok(())"]
    if re.match(r"(Vec|VecDeque|String|BTreeMap|BTreeSet|Duration|f64)\b", kind):
        return ["Default::default()"]
    return [""] if kind == "" else []


def squeezed(text):
    return re.sub(r"\s+", " ", text).strip()


def blanks(text, sign=" "):
    return re.sub(r"[^\n]", sign, text)


def without_comments(text):
    """The text with blanks in the place of comments; and that with letters in the place of strings as well."""
    plain, code, at = [], [], 0
    for it in TOKEN.finditer(text):
        is_comment = it[0].startswith("/")
        plain += [text[at : it.start()], blanks(it[0]) if is_comment else it[0]]
        code += [text[at : it.start()], blanks(it[0], " " if is_comment else "s")]
        at = it.end()
    return "".join([*plain, text[at:]]), "".join([*code, text[at:]])


def bodies(code):
    """The code with blanks in the place of what is in no body of a function, in a macro, constant, or of tests; and the
    functions: begin and end of the body, name, and type of the result."""
    closes, opened = {}, []
    for at, sign in enumerate(code):
        if sign in OPEN:
            opened.append(at)
        elif sign in CLOSE and opened:
            closes[opened.pop()] = at

    hidden = []
    for it in re.finditer(r"#\[cfg\(test\)\]\s*[^{;]*\{|#!?\[|\b\w+!\s*(?:\w+\s*)?[(\[{]", code):
        end = closes.get(it.end() - 1, it.end())
        hidden.append((it.start(), end))
        if it[0][0] != "#":
            # A value, as long as the macro that makes it.
            code = code[: it.start()] + blanks(code[it.start() : end + 1], "m") + code[end + 1 :]
    for it in re.finditer(r"\b(?:const|static) [A-Z_][A-Z_0-9]*:", code):
        at = it.end()
        while at < len(code) and code[at] != ";":
            at = closes.get(at, at) + 1
        hidden.append((it.start(), at))

    shown, functions = [], []
    for it in FUNCTION.finditer(code):
        at = it.end()
        while at < len(code) and code[at] not in "{;":
            at = closes.get(at, at) + 1
        if at not in closes or code[at] != "{":
            continue
        if it[1]:
            hidden.append((it.start(), closes[at]))
            continue
        # The signature of a function within another.
        hidden.append((it.start(), at - 1))
        shown.append((at, closes[at]))
        kind = re.search(r"\) -> (.*?)(?: where .*)?$", squeezed(code[it.end() : at]))
        functions.append((at + 1, closes[at], it[2], kind[1] if kind else ""))

    is_shown = bytearray(len(code) + 1)
    for begin, end in shown:
        is_shown[begin : end + 1] = b"\1" * (end + 1 - begin)
    for begin, end in hidden:
        is_shown[begin : end + 1] = bytes(end + 1 - begin)
    body = "".join(sign if shows or sign in "m\n" else " " for sign, shows in zip(code, is_shown))
    return body, [it for it in functions if is_shown[it[0] - 1]]
