from users import user_name

TITLE = 'App'


def banner(number):
    return f'{TITLE}: {user_name(number)}'
