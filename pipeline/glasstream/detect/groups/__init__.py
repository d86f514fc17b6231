"""Groups of rows, by a column that the model never sees or by a feature: how good the model is for each of them."""
