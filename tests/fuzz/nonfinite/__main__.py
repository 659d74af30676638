"""Random trainings with NaN or Inf at a random op and step: PYTHONPATH=tests python -m fuzz.nonfinite --count 1000."""

from __future__ import annotations

from fuzz import campaign
from fuzz.campaign import Trial
from fuzz.nonfinite import judge
from fuzz.verdict import Verdict


def tried(seed: int) -> Trial:
    """Try one training."""
    counts, fault = judge.tried(seed)
    return Trial(seed, counts, [Verdict("differs", "nonfinite", fault)] if fault else [])


if __name__ == "__main__":
    campaign.run_uncached(tried, __doc__ or "")
