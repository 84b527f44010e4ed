import everything, stack
assert everything.Stack is stack.Stack and stack.Stack.__module__ == 'stack'
s = stack.Stack()
s.push(1)
assert everything.size(s) == 1
assert 'class Stack' not in open('everything.py').read()
