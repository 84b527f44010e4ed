import app, users
assert app.banner(3) == 'App: App user 3'
assert users.user_name(1) == 'App user 1'
