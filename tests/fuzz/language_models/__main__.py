"""Random language models: `python -m fuzz.language_models [--count N] [--seed N] [--jobs N]`, in tests/.

A config of a random family with random options gets random weights. The logits of its import are those of transformers,
and those after `merge --layout gguf` or `hf` are the same, or the model was refused in a sentence.
"""

from __future__ import annotations

import sys
import warnings

from fuzz.campaign import run_uncached

if __name__ == "__main__":
    try:
        from frontends.torchvision_without_operators import torchvision

        torchvision()  # transformers imports it
        import transformers
    except ImportError as error:
        sys.exit(f'fuzz.language_models needs PyTorch and transformers: pip install -e ".[test,frameworks]" ({error})')
    from fuzz.language_models.judge import tried

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    run_uncached(tried, "random language models beside transformers, and in other layouts and back")
