"""Lark and GBNF: what they allow, and what of them is refused where."""

import pytest
from grammar_kit import fits, grammars, matcher, text_of, tokenizer, write

from colibri.errors import GrammarError
from colibri.grammar.gbnf import gbnf_to_lark
from colibri.grammar.structure import Structure

LIST = r"""
# a list, and a rule that is not ended by a line break in a group
root ::= "[" item ("," " "? item)* "]" |
   "none"
item ::= [a-z_\-]+ | "\"" [^"\n]{2,3} "\"" | ( "A"
  | "\u00e9\x41" )
"""


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("[ab]", True),
        ("[ab, c-d_,A]", True),
        ('["x y"]', True),
        ("[éA]", True),
        ("none", True),
        ("[]", False),
        ("[a,  b]", False),
        ('["x"]', False),
        ('["x\ny"]', False),
        ("[é]", False),
        ("nonesuch", False),
    ],
)
def test_gbnf(text: str, good: bool) -> None:
    assert fits(Structure.gbnf(LIST), text) == good
    assert fits(Structure.gbnf(LIST), text, cut=1) == good


def test_gbnf_is_not_greedy() -> None:
    grammar = Structure.gbnf('root ::= [a-z]* "ab" | "x" "y" | "xyz" [.]')
    for text in ("ab", "abab", "zzab", "xy", "xyz."):
        assert fits(grammar, text)
    assert not fits(grammar, "aba")


def test_gbnf_recursion() -> None:
    grammar = Structure.gbnf('root ::= "(" root ")" | pair*\npair ::= "[" "]"')
    assert fits(grammar, "((([][])))")
    assert not fits(grammar, "(([])")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rule named root"),
        ('a ::= "x"', "no rule named root"),
        ("root ::= x", "line 1, column 10: there is no rule 'x'"),
        ('root ::= "a"\nroot ::= "b"', "line 2, column 1: rule 'root' is there already"),
        ('root ::= "a"\n "b"', "line 2, column 2: a rule begins with NAME ::="),
        ('"a"', "no rule named root"),
        ('root ::= ("a"', "a group is not closed"),
        ('root ::= ("a"\nx ::= "b"', "line 2, column 1: a group is not closed"),
        ('root ::= "a")', "line 1, column 13: a group is closed that was not opened"),
        ('root ::= "a', "line 1, column 10: '\"a' is not expected"),
        ("root ::= <[12]>", "line 1, column 10: '<.12.>' is not expected"),
        (r'root ::= "\q"', r"line 1, column 10: \\q is no escape"),
        (r'root ::= "\ud800"', r"line 1, column 10: \\ud800 is no escape"),
        ("root ::= [z-a]", "gbnf: "),
        ("root ::= " + "(" * 3_000 + '"a"' + ")" * 3_000, "nested"),
        ('root ::= "a"{100000}{100000}', "gbnf: "),
    ],
)
def test_gbnf_errors_say_where(text: str, words: str) -> None:
    with pytest.raises(GrammarError, match=words):
        grammars().compiled(Structure.gbnf(text))


def test_names_of_rules_do_not_meet() -> None:
    text = 'root ::= a-b a_b aB\na-b ::= "1"\na_b ::= "2"\naB ::= "3"'
    assert gbnf_to_lark(text).count("\nr") == 3
    assert fits(Structure.gbnf(text), "123")


def test_lark() -> None:
    grammar = Structure.lark(
        'start: greeting " " NAME ("!" | "?")~1..2 // a comment with %json <x> @y\n'
        'greeting: "hello" | "good " ("day"|"night")\n'
        "NAME: /[A-Z][a-z]{1,8}/ # another\n"
    )
    assert fits(grammar, "good night Zoe!?")
    assert not fits(grammar, "good night zoe!")
    ids, whole = write(matcher(grammar), 3, temperature=2.0)
    assert whole
    assert fits(grammar, text_of(ids))


def test_marks_within_strings_and_regexes_are_text() -> None:
    grammar = Structure.lark('start: "%json <a> @b //" /[<]%x[>@]/')
    assert fits(grammar, "%json <a> @b //<%x@")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "lark: "),
        ('begin: "a"', "lark: "),
        ('start: "a" B', 'line 1, column 8: unknown name: "B"'),
        ('start: "a"\n  <[0]>', "line 2, column 3: '<.0.>': tokens cannot be named"),
        ("start: <|endoftext|>", "tokens cannot be named"),
        ('start: %json {"not": {}}', "line 1, column 8: '%json'"),
        ('%llguidance {"no_forcing": true}\nstart: "a"', "line 1, column 1: '%llguidance'"),
        ("start: @other", "'@other': other grammars"),
        ('start: a\na[max_tokens=3]: "x"', "line 2, column 1: .*rules take no options"),
        ("start: A\nA: " + " & ".join(["/a/"] * 9), "more than 4 of & and ~"),
        ("start: a\na: b\nb: a", "no text fits it"),
        ("start: /(?=a)/", "look-ahead"),
        ("start: " + "(" * 3_000 + '"a"' + ")" * 3_000, "nested"),
    ],
)
def test_lark_errors_say_where(text: str, words: str) -> None:
    with pytest.raises(GrammarError, match=words):
        grammars().compiled(Structure.lark(text))


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", "unclosed group"),
        (r"(a)\1", "backreference"),
        ("a(?!b)", "look-ahead"),
        ("((a{200}){200}){200}", "repetitions within repetitions come to 40000"),
        ("(" * 2_000 + "a" + ")" * 2_000, "regex: "),
    ],
)
def test_regex_errors(pattern: str, words: str) -> None:
    with pytest.raises(GrammarError, match=words):
        grammars().compiled(Structure.regex(pattern))


@pytest.mark.parametrize("pattern", ["((a*)*)*b", "(a+)+{50}", "[(]{3}[{]{4}", r"(\({9}x{9}){9}"])
def test_regexes_that_only_look_dangerous(pattern: str) -> None:
    grammars().compiled(Structure.regex(pattern))


def test_vocabulary_is_the_tokenizers() -> None:
    vocabulary = grammars().vocabulary
    assert vocabulary.size == tokenizer().vocab_size
    assert vocabulary.bytes_of(vocabulary.size + 3) == b""
    data = "né".encode()[:2]  # half a character
    assert b"".join(map(vocabulary.bytes_of, vocabulary.spell(data))) == data
