import sqlite3
from people import find
db = sqlite3.connect(':memory:')
db.execute('create table people (id, name)')
db.executemany('insert into people values (?, ?)', [(1, 'ann'), (2, "o'neil")])
assert find(db, 'ann') == [(1,)] and find(db, "o'neil") == [(2,)]
assert find(db, "x' or '1'='1") == []
