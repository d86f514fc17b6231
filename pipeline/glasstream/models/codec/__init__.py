"""Write predictors as bytes and read them, without executing anything that an authentic key has not signed.

Reading a compiled predictor imports no River.
"""
