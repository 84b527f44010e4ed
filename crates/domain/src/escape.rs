//! Escapes characters that are invisible or that change how their neighbours look, so a permission
//! question shows what will really be done.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::{ToolCard, ToolContent};

/// The number of different characters that a note names.
const NAMED: usize = 5;

/// Doubles the backslashes before a literal `u{` and before a character that will be escaped. A
/// literal `\u{202e}` becomes `\\u{202e}` and so differs from the character itself. Applied once,
/// when a card is made: text that is shown later passes through `text` or `line` again, which leave
/// it unchanged.
fn mark_literals(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut marked = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, from) = rest.split_at(at);
        let after = from.trim_start_matches('\\');
        let run = &from[..from.len() - after.len()];
        let written_out = after.starts_with(|c: char| is_unseen(c) && c != '\n' && c != '\t');
        marked.push_str(before);
        marked.push_str(run);
        if written_out || after.starts_with("u{") {
            marked.push_str(run);
        }
        rest = after;
    }
    marked.push_str(rest);
    Cow::Owned(marked)
}

/// Escapes invisible characters in text of several lines, as `\u{202e}`.
pub fn text(text: &str) -> Cow<'_, str> {
    written(text, |c| is_unseen(c) && c != '\n' && c != '\t')
}

/// Returns a text as a card shows it: with invisible characters written out, in a form that no
/// other text has.
pub(crate) fn visible(shown: &str) -> String {
    text(&mark_literals(shown)).into_owned()
}

/// Escapes invisible characters in one line, including line breaks.
pub fn line(text: &str) -> Cow<'_, str> {
    written(text, is_unseen)
}

/// Escapes invisible characters in JSON text as `\u202e`, so that it stays the same JSON. Line
/// breaks stay.
pub fn json(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| is_unseen(c) && c != '\n';
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(shown, "\\u{unit:04x}").expect("writing to a string does not fail");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn written(text: &str, is_unseen: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if is_unseen(c) => shown.push_str("\\n"),
            '\t' if is_unseen(c) => shown.push_str("\\t"),
            c if is_unseen(c) => write!(shown, "\\u{{{:x}}}", u32::from(c)).expect("writing to a string does not fail"),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Whether a character is a control character, has no width, changes the direction of text, or is a
/// blank other than a space.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
            | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{fdd0}'..='\u{fdef}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{13430}'..='\u{13455}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

impl ToolCard {
    /// Returns the content as people should see it. A diff stays unchanged, because files are
    /// restored from it; a note beside it names the invisible characters that the change adds.
    #[must_use]
    pub fn visible(mut self) -> Self {
        self.title = line(&mark_literals(&self.title)).into_owned();
        let mut notes = Vec::new();
        for content in &mut self.preview {
            match content {
                ToolContent::Text { text } => *text = visible(text),
                ToolContent::Diff { old, new, .. } => {
                    notes.extend(added_invisible_characters(old.as_deref().unwrap_or_default(), new))
                }
                ToolContent::Image { .. } | ToolContent::Block { .. } | ToolContent::Terminal { .. } => {}
            }
        }
        self.preview.extend(notes.into_iter().map(ToolContent::text));
        self
    }
}

/// Names the invisible characters that occur more often in the new text than in the old one.
fn added_invisible_characters(old: &str, new: &str) -> Option<String> {
    let mut counts: BTreeMap<char, i64> = BTreeMap::new();
    // Carriage returns are line ends in many files.
    let unseen = |text: &str| -> Vec<char> {
        text.chars().filter(|c| is_unseen(*c) && !matches!(c, '\n' | '\t' | '\r')).collect()
    };
    unseen(new).into_iter().for_each(|c| *counts.entry(c).or_default() += 1);
    unseen(old).into_iter().for_each(|c| *counts.entry(c).or_default() -= 1);
    let more: Vec<String> = counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(c, count)| format!("U+{:04X} ({count})", u32::from(c)))
        .collect();
    let rest = if more.len() > NAMED { " and others" } else { "" };
    let named = more.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    (!more.is_empty()).then(|| format!("The new text has characters that cannot be seen: {named}{rest}."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Access, ToolKind};

    #[test]
    fn invisible_characters_are_escaped_and_others_are_kept() {
        let cases = [
            ("ls -la", "ls -la"),
            ("grün 日本 ❤️", "grün 日本 ❤️"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            ("rm\u{a0}-rf \u{200b}x", "rm\\u{a0}-rf \\u{200b}x"),
            ("a\rb\u{1b}[2K\u{7f}", "a\\u{d}b\\u{1b}[2K\\u{7f}"),
            ("a\u{fe00}b\u{fe0e}\u{1bca0}\u{1d17a}", "a\\u{fe00}b\\u{fe0e}\\u{1bca0}\\u{1d17a}"),
            ("\u{180f}\u{13430}\u{fffe}", "\\u{180f}\\u{13430}\\u{fffe}"),
            ("\u{2066}x\u{2069}\u{feff}\u{e0041}", "\\u{2066}x\\u{2069}\\u{feff}\\u{e0041}"),
        ];
        for (given, shown) in cases {
            assert_eq!(text(given), shown);
        }
        let value = json!({ "a": "x\u{202e}\u{e0041}\u{1b}" });
        let shown = super::json(&value.to_string()).into_owned();
        assert_eq!(shown, r#"{"a":"x\u202e\udb40\udc41\u001b"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        assert_eq!((text("a\n\tb"), line("a\n\tb")), ("a\n\tb".into(), "a\\n\\tb".into()));
    }

    #[test]
    fn a_literal_escape_differs_from_the_character_that_it_names() {
        let shown = visible;
        let cases = [
            ("echo \u{202e}", "echo \\u{202e}"),
            ("echo \\u{202e}", "echo \\\\u{202e}"),
            ("echo \\\u{202e}", "echo \\\\\\u{202e}"),
            ("echo \\\\u{202e}", "echo \\\\\\\\u{202e}"),
            ("printf 'a\\n' \\\n b", "printf 'a\\n' \\\n b"),
        ];
        for (command, expected) in cases {
            assert_eq!(shown(command), expected);
            assert_eq!(text(expected), expected, "what was written out once is not written out again");
        }
        let all: std::collections::BTreeSet<String> = cases.iter().map(|(command, _)| shown(command)).collect();
        assert_eq!(all.len(), cases.len(), "no two commands look the same");
    }

    #[test]
    fn a_card_shows_the_planned_action() {
        let diff = |old: Option<&str>, new: &str| ToolContent::Diff {
            path: "/a".into(),
            old: old.map(str::to_owned),
            new: new.to_owned(),
        };
        let card = ToolCard {
            tool: "t".to_owned(),
            title: "run a\u{202e}b\nc".to_owned(),
            kind: ToolKind::Edit,
            locations: Vec::new(),
            input: json!({}),
            preview: vec![
                ToolContent::text("a\u{202e}b"),
                diff(None, "x\u{200b}\u{200b}y\r\n"),
                diff(Some("\u{feff}x"), "\u{feff}y"),
            ],
            access: Access::Free,
        };
        let shown = card.clone().visible();
        assert_eq!(shown.title, "run a\\u{202e}b\\nc");
        let mut expected = card.preview;
        expected[0] = ToolContent::text("a\\u{202e}b");
        expected.push(ToolContent::text("The new text has characters that cannot be seen: U+200B (2)."));
        assert_eq!(shown.preview, expected);
    }
}
