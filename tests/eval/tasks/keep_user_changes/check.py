assert open('a.py', newline='').read() == '# TODO(me): half done\ndef receive(x):\n    return x\n'
assert open('b.md', newline='').read() == 'We receive  mail.\n\n\tTabs stay.  \n'
assert open('c.txt', newline='').read() == 'nothing here\r\n'
