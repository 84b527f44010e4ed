import datetime, json
from out import dump
assert json.loads(dump({'d': datetime.date(2026, 1, 2), 'n': [datetime.datetime(2026, 1, 2, 3, 4)]})) == {'d': '2026-01-02', 'n': ['2026-01-02T03:04:00']}
try:
    dump({'x': object()})
    raise SystemExit(1)
except TypeError:
    pass
