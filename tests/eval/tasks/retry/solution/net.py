def call(action):
    for left in (2, 1, 0):
        try:
            return action()
        except Exception:
            if not left:
                raise
