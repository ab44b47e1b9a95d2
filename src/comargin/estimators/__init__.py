"""comargin.estimators."""
