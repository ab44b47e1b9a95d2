"""comargin.solvers."""
