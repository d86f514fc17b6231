"""`python -m glasstream`: the command `glasstream`."""

from glasstream.app.command.main import main

if __name__ == "__main__":
    main()
