from title import TITLE
from users import user_name


def banner(number):
    return f'{TITLE}: {user_name(number)}'
