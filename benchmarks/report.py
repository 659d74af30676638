"""The table that every benchmark ends with."""

SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6}


def report(title, *rows, unit):
    """Print rows of (what, seconds, target in seconds or None)."""
    print(title)
    print(f"  {'':34}{'measured':>12}{'target':>12}")
    for what, measured, target in rows:
        wanted = "" if target is None else f"{target * SCALE[unit]:.3g} {unit}"
        verdict = "" if target is None else "  met" if measured <= target else "  MISSED"
        print(f"  {what:34}{measured * SCALE[unit]:9.3f} {unit:2}{wanted:>12}{verdict}")
