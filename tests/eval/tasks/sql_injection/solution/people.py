def find(db, name):
    return db.execute('select id from people where name = ?', (name,)).fetchall()
