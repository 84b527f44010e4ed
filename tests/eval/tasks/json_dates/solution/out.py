import datetime
import json


def plain(value):
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f'cannot write {value!r}')


def dump(value):
    return json.dumps(value, sort_keys=True, default=plain)
