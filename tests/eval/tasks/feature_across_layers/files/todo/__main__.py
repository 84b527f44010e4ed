from todo.cli import main

main()
