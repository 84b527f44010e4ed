import json


def dump(value):
    return json.dumps(value, sort_keys=True)
