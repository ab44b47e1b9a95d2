"""comargin.kernels."""
