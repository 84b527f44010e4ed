import configparser
want = {'mail': '25', 'cache': '6379', 'service': '8080', 'metrics': '9090'}
for name, port in want.items():
    c = configparser.ConfigParser()
    c.read(f'conf/{name}.ini')
    assert c[name]['port'] == port and c[name]['host'] == 'localhost', name
