"""What a person starts: the command line, a run on this machine, the live page, pictures, and the tools on call.

`command` has one thin module for each command; `operate` and `runner` do the work. No other package imports this one.
"""
