"""Text into tokens: special ones before it stay, those after it would part a prompt from its
choice."""

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.processors import TemplateProcessing

from tests.language_models import EOS, byte_tokenizer
from trajdiag.errors import ConfigError
from trajdiag.extraction.encoder import Encoder
from trajdiag.models.tokenizer import TextTokenizer

BOS = "<s>"


def tokenizer(template: str = "$A", bos: bool = False) -> TextTokenizer:
    plain: Tokenizer = byte_tokenizer()
    plain.add_special_tokens([AddedToken(BOS, special=True)])
    ids = {name: plain.token_to_id(name) for name in (BOS, EOS)}
    plain.post_processor = TemplateProcessing(single=template, special_tokens=list(ids.items()))
    return TextTokenizer(
        plain, sha256="", eos_token_id=ids[EOS], bos_token_id=ids[BOS] if bos else None
    )


def test_without_special_tokens_a_text_is_its_own():
    text = "What is the Question?"
    assert Encoder(tokenizer(), 400)(text) == byte_tokenizer().encode(text).ids


def test_what_is_put_before_a_text_stays_and_what_is_put_after_it_does_not():
    given = tokenizer(f"{BOS} $A {EOS}", bos=True)
    plain = byte_tokenizer().encode("What is").ids
    assert Encoder(given, 400)("What is") == [given.bos_token_id, *plain]
    assert given.encode("What is")[-1] == given.eos_token_id


def test_a_text_that_begins_with_the_first_special_token_gets_no_other():
    given = tokenizer(f"{BOS} $A", bos=True)
    assert Encoder(given, 400)(f"{BOS}What is") == Encoder(given, 400)("What is")


def test_an_empty_prompt_is_the_token_that_begins_or_ends_a_text():
    assert Encoder(tokenizer(bos=True), 400).first() == tokenizer(bos=True).bos_token_id
    assert Encoder(tokenizer(), 400).first() == 0
    without = tokenizer()
    without.eos_token_id = None
    with pytest.raises(ConfigError, match="an empty prompt needs a tokenizer that has a bos"):
        Encoder(without, 400).first()


def test_an_id_beyond_the_models_vocabulary_is_refused():
    with pytest.raises(ConfigError, match=r"gives 'a' the id \d+, but the model has .* of 3 "):
        Encoder(tokenizer(), 3)


@pytest.mark.parametrize("given", ["ab", None, [1.5], [True], {"input_ids": [1]}])
def test_what_is_no_list_of_ids_is_refused(given):
    class Odd:
        bos_token_id = eos_token_id = None

        def encode(self, text, add_special_tokens=True):
            return given

    with pytest.raises(ConfigError, match="encode must give a list of token ids, not a "):
        Encoder(Odd(), 400)


def test_what_a_tokenizer_raises_is_one_line():
    class Broken:
        bos_token_id = eos_token_id = None

        def encode(self, text, add_special_tokens=True):
            raise KeyError(text)

    with pytest.raises(ConfigError, match=r"the tokenizer's encode failed: KeyError: 'a'"):
        Encoder(Broken(), 400)
