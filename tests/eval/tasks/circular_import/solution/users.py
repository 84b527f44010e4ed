from title import TITLE


def user_name(number):
    return f'{TITLE} user {number}'
