def find(db, name):
    return db.execute(f"select id from people where name = '{name}'").fetchall()
