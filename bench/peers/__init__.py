"""The programs that anabranch is compared with, and the command that compares them: ``python -m bench.peers``."""
