def call(action):
    return action()
