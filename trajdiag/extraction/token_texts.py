"""What each token of a vocabulary reads, for people."""

from trajdiag.extraction.encoder import Encoder
from trajdiag.store.token_texts import save_tokens

LETTERS = 40
"""Characters kept of a token's text: few tokens have more, such as runs of blanks."""
MOST_BYTES = 16 * 2**20
"""Of a file of texts; of a vocabulary whose texts take more none are kept."""


def tokens_file(encode: Encoder, vocab_size: int) -> bytes | None:
    """The content of tokens.json for a model with `vocab_size` tokens; None where it is too long.

    A token that is a part of a character reads as a replacement mark, and one that the tokenizer
    does not have as nothing.
    """
    known = encode.ids()
    texts = [
        encode.decode([token])[:LETTERS] if token in known else "" for token in range(vocab_size)
    ]
    content = save_tokens([text.encode("utf-8", "replace").decode() for text in texts])
    return content if len(content) <= MOST_BYTES else None
