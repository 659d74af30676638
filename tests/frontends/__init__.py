"""An optional group of tests, which needs PyTorch, torchvision, timm and transformers: see docs/from-pytorch.md.

agreement    compares an imported program with its module: outputs, gradients, statistics, states after steps
by_hand      trains a module by its loop in PyTorch, and compares losses and states
census       compares many networks; census_page is the page of them
configurations  small configurations of networks of transformers
double       modules in float64 throughout
measured     a row of the census
exported_to_onnx  seeded modules, and their files by both ONNX exporters of PyTorch
functions    tests of functions of tensors
modes        tests of what a module does in each mode, and of what torch.export drops
networks     modules of three packages in small sizes, with seeded weights and without dropout
steps        compares states after steps of optimizers
training     tests of losses and schedulers
written      modules as users write them
torchvision_without_operators  imports torchvision where its compiled operators are missing
"""
