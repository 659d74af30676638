"""Templates: what they write, and that they run no code, and end."""

import json
from contextlib import suppress

import pytest
from subjects.commands import told

from runtime.errors import DataError
from runtime.language import sandbox
from runtime.language.template import Template

TURNS = [{"role": "user", "content": "Hello"}]

pytest.importorskip("jinja2", reason='needs jinja2: pip install ".[lm]"')


def template(text: str, **config: object) -> Template:
    return Template({"chat_template.jinja": text, "tokenizer_config.json": json.dumps(config)}, "m")


def refusal(text: str) -> str:
    with pytest.raises(DataError) as error:
        template(text).text(TURNS)
    return str(error.value)


def test_a_template_writes_turns_and_special_tokens():
    text = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m['content'] }}{{ eos_token }}\n{% endfor %}"
    made = template(text, bos_token="<s>", eos_token={"content": "</s>"}).text(TURNS)
    assert made == "<s>[user] Hello</s>\n"


def test_marks_of_what_is_generated_change_no_text():
    assert template("{% generation %}{{ messages[0].content }}{% endgeneration %}!").text(TURNS) == "Hello!"


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ self._TemplateReference__context }}",
        "{{ raise_exception.__globals__ }}",
    ],
)
def test_no_attribute_of_python_is_reached(text: str):
    written = ""
    with suppress(DataError):
        written = template(text).text(TURNS)
    assert written == ""  # an undefined value writes nothing, and all others are refused


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% for %}", ", line 1: Expected an expression, got 'end of statement block'"),
        ("\n{{ messages.nothing.more }}", ", line 2: it fails: 'list object' has no attribute 'nothing'"),
        ("{{ raise_exception('roles alternate') }}", ": it refuses the conversation: roles alternate"),
        ("{{ 'a' * 1000000000 }}", ": it refuses the conversation: * is for numbers below 16777216"),
        ("{{ 2 ** 100000 }}", ": it refuses the conversation: a power above 64"),
        ("{{ 1 // 0 }}", ", line 1: it fails: ZeroDivisionError: integer division or modulo by zero"),
    ],
)  # fmt: skip
def test_a_template_that_fails_is_named_with_its_line(text: str, words: str):
    assert refusal(text) == f"m: the chat template{words}"


def test_a_template_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox, "MOST_SECONDS", 0.05)
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = a + b %}{% endfor %}{% endfor %}"
    assert refusal(loop) == "m: the chat template: it takes longer than 0.05 s"


def test_a_template_that_writes_without_end_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox, "MOST_CHARACTERS", 10_000)
    words = "m: the chat template: it writes more than 10000 characters"
    assert refusal("{% for a in range(99999) %}{{ messages[0].content }}{% endfor %}") == words


def test_a_template_that_doubles_its_text_is_ended():
    text = "{% set n = namespace(x='abcdefgh') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}"
    assert refusal(text) == "m: the chat template: it takes more than 256 MiB"


def test_a_model_without_a_template_is_told_so():
    assert told(DataError, lambda: Template({}, "m")) == (
        "m: the model has no chat template, in chat_template.jinja or tokenizer_config.json; it takes plain texts"
    )
