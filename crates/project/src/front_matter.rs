//! The front matter of a Markdown file: `name: value` lines between two lines of three dashes.
//! Pure.
//!
//! It parses the part of YAML that is common in such files: plain and quoted values, values on
//! indented lines, and lists. Anything else is plain text.

/// The fields of a file's front matter, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontMatter(Vec<(String, Value)>);

#[derive(Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    List(Vec<String>),
}

/// Returns the fields at the top of a file and the text after them.
pub(crate) fn read(file: &str) -> (FrontMatter, String) {
    let file = file.strip_prefix('\u{feff}').unwrap_or(file).replace("\r\n", "\n");
    let (front, text) = split(&file);
    (FrontMatter::parse(front), text.trim().to_owned())
}

impl FrontMatter {
    fn parse(front: &str) -> Self {
        let mut fields = Vec::new();
        let mut lines = front.lines().peekable();
        while let Some(line) = lines.next() {
            let Some((name, value)) = line.split_once(':').filter(|_| !line.starts_with([' ', '\t', '#', '-'])) else {
                continue;
            };
            let mut below = Vec::new();
            while let Some(next) =
                lines.next_if(|next| next.starts_with([' ', '\t', '-']) || (next.is_empty() && !below.is_empty()))
            {
                below.push(next.trim());
            }
            fields.push((name.trim().to_ascii_lowercase(), value_of(value.trim(), &below)));
        }
        Self(fields)
    }

    /// Returns the value of a field as one text; None if it is missing or empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let text = match self.find(name)? {
            Value::Text(text) => text.clone(),
            Value::List(items) => items.join(", "),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the value of a field as a list, which may also be written as words between commas.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<String>> {
        let items = match self.find(name)? {
            Value::Text(text) => text.split(',').map(|item| unquoted(item.trim()).to_owned()).collect(),
            Value::List(items) => items.clone(),
        };
        Some(items.into_iter().filter(|item: &String| !item.is_empty()).collect())
    }

    fn find(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }
}

fn value_of(value: &str, below: &[&str]) -> Value {
    let items: Option<Vec<String>> =
        below.iter().map(|line| line.strip_prefix('-').map(|item| unquoted(item.trim()).to_owned())).collect();
    if value.is_empty()
        && let Some(items) = items.filter(|items| !items.is_empty())
    {
        return Value::List(items);
    }
    if let Some(items) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        && items.contains(',')
    {
        return Value::List(items.split(',').map(|item| unquoted(item.trim()).to_owned()).collect());
    }
    // A value that begins with `|` or `>` is on the lines below; others may continue there.
    let first = if value.starts_with(['|', '>']) && value.len() <= 2 { "" } else { value };
    let joined = std::iter::once(first).chain(below.iter().copied()).filter(|line| !line.is_empty());
    Value::Text(unquoted(&joined.collect::<Vec<_>>().join(" ")).to_owned())
}

/// Splits a file into the lines between two lines of three dashes at the top, and the rest.
fn split(file: &str) -> (&str, &str) {
    let fenced = file.strip_prefix("---\n").and_then(|rest| {
        let end = if rest.starts_with("---") { 0 } else { rest.find("\n---")? + 1 };
        let (front, after) = (&rest[..end], &rest[end + 3..]);
        let (line, text) = after.split_once('\n').unwrap_or((after, ""));
        line.trim().is_empty().then_some((front, text))
    });
    fenced.unwrap_or(("", file))
}

fn unquoted(value: &str) -> &str {
    let inner = |quote: char| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_be_plain_quoted_on_lines_below_or_lists() {
        let (front, text) = read(
            "---\nName: \"pdf\"\ndescription: >-\n  Fills forms,\n  and: more.\n\n  Indeed.\ntools: Read, 'grep'\n\
             also:\n- a\n- \"b\"\nmore: [x, y]\nhint: [file]\n# a: comment\nempty:\n---\n\n# Body\n",
        );
        assert_eq!(front.text("name").as_deref(), Some("pdf"));
        assert_eq!(front.text("description").as_deref(), Some("Fills forms, and: more. Indeed."));
        assert_eq!(front.list("tools"), Some(vec!["Read".to_owned(), "grep".to_owned()]));
        assert_eq!(front.list("also"), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(front.list("more"), Some(vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(front.text("hint").as_deref(), Some("[file]"));
        assert_eq!((front.text("empty"), front.text("missing"), front.text("# a")), (None, None, None));
        assert_eq!(text, "# Body");
    }

    #[test]
    fn a_file_without_a_closed_fence_has_no_front_matter() {
        for file in ["plain", "---\nname: x\n", "--- \nname: x\n---\n", ""] {
            assert_eq!(read(file).0, FrontMatter::default(), "{file}");
        }
        assert_eq!(read("\u{feff}---\r\nname: x\r\n---\r\nbody").0.text("name").as_deref(), Some("x"));
    }
}
