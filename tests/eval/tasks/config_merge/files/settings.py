def merge(defaults, user):
    defaults.update(user)
    return defaults
