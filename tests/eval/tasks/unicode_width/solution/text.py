def shorten(data, limit):
    """Cuts UTF-8 bytes."""
    return data[:limit].decode(errors='ignore').encode()
