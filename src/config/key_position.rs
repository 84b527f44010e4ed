//! Finds the line of a key in TOML text. Pure; knows nothing about the meaning of keys.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Returns the line of a dotted key such as `permissions.project[1].deny[0]`, or of the longest
/// part of it that exists.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let offset = in_table(root.get_ref(), key)?;
    Some(line_at(text, offset))
}

/// Whether the text sets a dotted key. The names in the key must not contain dots.
pub(super) fn holds(text: &str, key: &str) -> bool {
    let Ok(root) = text.parse::<toml::Table>() else { return false };
    let mut names = key.split('.');
    let first = names.next().and_then(|name| root.get(name));
    names.fold(first, |value, name| value?.get(name)).is_some()
}

/// Returns the line that contains a byte, counted from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// Finds a key in a table. A name may contain dots, so the key is matched against the existing
/// names, the longest first.
fn in_table(table: &DeTable<'_>, key: &str) -> Option<usize> {
    let fits = |name: &str| key.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    let found = table.iter().filter_map(|(name, value)| Some((name, value, fits(name.get_ref())?)));
    let (name, value, rest) = found.max_by_key(|(name, _, _)| name.get_ref().len())?;
    Some(below(value, rest).unwrap_or(name.span().start))
}

fn below(value: &Spanned<DeValue<'_>>, rest: &str) -> Option<usize> {
    if let Some(key) = rest.strip_prefix('.') {
        return in_table(value.get_ref().as_table()?, key);
    }
    let (number, rest) = rest.strip_prefix('[')?.split_once(']')?;
    let member = value.get_ref().as_array()?.get(number.parse::<usize>().ok()?)?;
    Some(below(member, rest).unwrap_or(member.span().start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_however_it_is_written() {
        let text = "top = 1\n\
                    [a]\n\
                    # b = 0\n\
                    b.c = 2\n\
                    list = [\n  \"x\",\n  \"y\",\n]\n\
                    table = { d = 1 }\n\
                    [[a.many]]\nz = 1\n\
                    [[a.many]]\nz = 2\n\
                    [p.\"dotted.name\"]\nq = 1\n";
        let expected = [
            ("top", 1),
            ("a", 2),
            ("a.b.c", 4),
            ("a.list", 5),
            ("a.list[1]", 7),
            ("a.table.d", 9),
            ("a.many[1].z", 13),
            ("a.many[0].nothing", 10),
            ("p.dotted.name.q", 15),
        ];
        for (key, line) in expected {
            assert_eq!(line_of(text, key), Some(line), "{key}");
        }
        assert!(holds(text, "a.b.c") && holds(text, "top") && !holds(text, "a.b.d") && !holds(text, "b"));
        assert_eq!(line_of(text, "nowhere"), None);
        assert_eq!(line_of("[broken", "a"), None);
    }
}
