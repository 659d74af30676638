"""An activation for prograd. Nothing is imported here, so a machine that only runs programs needs the kernels only."""
