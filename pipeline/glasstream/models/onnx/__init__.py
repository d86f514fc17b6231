"""Models that are already trained, in ONNX files: they predict and are explained, and learn nothing.

An ONNX file is data. Nothing in it is executed but the operators of the ONNX standard.
"""
