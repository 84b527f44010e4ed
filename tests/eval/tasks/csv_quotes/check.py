from table import line
assert line(['a', 'b']) == 'a,b'
assert line(['a,b', 'say "x"', 'two\nlines']) == '"a,b","say ""x""","two\nlines"'
