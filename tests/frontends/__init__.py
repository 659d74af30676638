"""An optional group of tests, which needs PyTorch, torchvision, timm and transformers: see docs/from-pytorch.md.

agreement    compares an imported program with its module: outputs, gradients, statistics, states after steps
configurations  small configurations of networks of transformers
networks     modules of three packages in small sizes, with seeded weights and without dropout
steps        compares states after steps of optimizers
table        prints the rows of the page
written      modules as users write them
torchvision_without_operators  imports torchvision where its compiled operators are missing
"""
