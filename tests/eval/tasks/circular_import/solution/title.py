TITLE = 'App'
