"""Data sets and parameters for trees."""

EAGER = {"grace_period": 15, "delta": 0.2, "tau": 0.3}
"""Parameters with which short streams make deep trees."""


SETS = ("elec2", "phishing", "keystroke", "outdoor", "poker_hand_25k", "powersupply", "adult", "weather_noaa")
