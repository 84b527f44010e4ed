__all__ = ['half']


def half(x):
    """Returns half of x."""
    return x / 2
