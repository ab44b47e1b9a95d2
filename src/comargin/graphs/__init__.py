"""comargin.graphs."""
