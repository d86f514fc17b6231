"""The live page: what the public topics say of each stream, for people who would rather look than read."""
