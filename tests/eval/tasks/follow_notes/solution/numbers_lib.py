__all__ = ['double', 'half']


def half(x):
    """Returns half of x."""
    return x / 2


def double(x):
    """Returns twice x."""
    return x * 2
