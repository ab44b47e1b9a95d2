"""comargin.cli."""
