"""An optional group of tests, which needs PyTorch: see docs/compared.md."""
