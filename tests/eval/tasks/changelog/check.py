text = open('CHANGELOG.md').read()
assert open('version.txt').read().strip() == '1.2.0'
assert '## 1.2.0 - 2026-02-03\n\n### Added\n\n- Exports can be cancelled.\n' in text
assert text.index('1.2.0') < text.index('1.1.0') and 'Imports keep their dates.' in text
