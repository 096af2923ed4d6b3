"""``discreet plan``."""


def register(app):
    pass
