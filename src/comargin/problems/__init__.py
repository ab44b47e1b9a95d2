"""comargin.problems."""
