//! Links in prompts: which file a link points to, and how the model sees it. The file is read only
//! when the model asks for it.

use std::path::{Path, PathBuf};

/// Returns the path of a `file:` URI without its query and fragment, or None for any other URI.
pub fn file_path(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = path.split(['#', '?']).next().filter(|path| path.starts_with('/') && path.len() > 1)?;
    percent_decoded(path).map(PathBuf::from)
}

/// Returns the `file:` URI of a path.
pub fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Returns the path by which a model should name a file. It is relative to the working folder if
/// the file is inside it.
pub(crate) fn path_for_model(uri: &str, cwd: &Path) -> Option<PathBuf> {
    let path = file_path(uri)?;
    match path.strip_prefix(cwd) {
        Ok(inside) if inside.as_os_str().is_empty() => Some(PathBuf::from(".")),
        Ok(inside) => Some(inside.to_owned()),
        Err(_) => Some(path),
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// The parts of a link that a model sees.
pub(crate) struct Label<'a> {
    pub(crate) uri: &'a str,
    pub(crate) name: &'a str,
    pub(crate) mime: Option<&'a str>,
    pub(crate) title: Option<&'a str>,
    pub(crate) description: Option<&'a str>,
    pub(crate) size: Option<i64>,
    /// The path that the model should use, if it is known.
    pub(crate) path: Option<&'a Path>,
}

impl Label<'_> {
    /// Describes the link to the model in one line, which states that the target has not been read
    /// yet.
    pub(crate) fn describe(&self) -> String {
        let path = self.path.map(Path::to_owned).or_else(|| file_path(self.uri));
        let Some(path) = path else {
            return one_line(&format!("[link: {} {}{}]", self.name, self.uri, self.facts("")));
        };
        let last = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let facts = self.facts(&last);
        // Editors append line numbers as a fragment, each in its own format.
        let lines = self.uri.split_once('#').map(|(_, lines)| format!(" at {lines}")).unwrap_or_default();
        let address = self.uri.split(['#', '?']).next().unwrap_or_default();
        let is_folder = address.ends_with('/') || path == Path::new(".");
        let path = path.display();
        if is_folder {
            return one_line(&format!("[folder: {path}{facts}; list_files lists it]"));
        }
        one_line(&format!("[file: {path}{lines}{facts}; not read yet, read_file reads it]"))
    }

    fn facts(&self, known: &str) -> String {
        let name = Some(self.name).filter(|name| !known.is_empty() && *name != known);
        let size = self.size.map(|size| format!("{size} bytes"));
        let quoted = [name, self.title].into_iter().flatten().map(|text| format!("\"{text}\""));
        let plain = [self.description, self.mime, size.as_deref()].into_iter().flatten().map(str::to_owned);
        let facts: Vec<String> = quoted.chain(plain).collect();
        if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) }
    }
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files_become_paths_and_others_do_not() {
        for uri in
            ["https://example.org/a.txt", "file://", "file:///", "file:///%zz", "file:///%f", "file://host/a", ""]
        {
            assert_eq!(file_path(uri), None, "{uri}");
        }
        assert_eq!(file_path("file:///%C3%BC.txt?x"), Some("/ü.txt".into()));
        assert_eq!(file_path("file://localhost/a%20b#L1"), Some("/a b".into()));
        assert_eq!(file_uri(Path::new("/a b/ü#?.txt")), "file:///a%20b/%C3%BC%23%3F.txt");
        assert_eq!(file_path("file:///a%20b/%C3%BC%23%3F.txt"), Some("/a b/ü#?.txt".into()));
    }

    #[test]
    fn a_linked_file_is_described_to_the_model_as_unread() {
        let label = |uri, name| Label { uri, name, mime: None, title: None, description: None, size: None, path: None };
        let shown = |label: Label| {
            let path = path_for_model(label.uri, Path::new("/work"));
            Label { path: path.as_deref(), ..label }.describe()
        };
        let full = Label {
            mime: Some("text/rust"),
            title: Some("A"),
            description: Some("the\nfirst"),
            size: Some(7),
            ..label("file:///work/src/a.rs#L3:9", "a.rs")
        };
        assert_eq!(
            shown(full),
            "[file: src/a.rs at L3:9 (\"A\", the first, text/rust, 7 bytes); not read yet, read_file reads it]"
        );
        let outside = label("file:///workshop/a%20b.rs", "B");
        assert_eq!(shown(outside), "[file: /workshop/a b.rs (\"B\"); not read yet, read_file reads it]");
        assert_eq!(shown(label("file:///work/src/", "src")), "[folder: src; list_files lists it]");
        assert_eq!(shown(label("file:///work", "work")), "[folder: .; list_files lists it]");
        assert_eq!(shown(label("https://example.org/x", "x")), "[link: x https://example.org/x]");
    }
}
