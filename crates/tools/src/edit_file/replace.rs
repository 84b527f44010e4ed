//! Exact replacements in a text, and hints for the model when they fail. Knows no files.

use std::time::{Duration, Instant};

use domain::text::cut;
use serde::Deserialize;
use similar::TextDiff;

use crate::input;

/// How long the search for a similar text may take.
const GUESSING: Duration = Duration::from_millis(200);

/// The largest file, and the longest text that was not found in it, for which a similar text is looked for.
const LARGEST_GUESSED: usize = 1 << 20;
const LONGEST_GUESSED: usize = 16 << 10;

/// Edits in one call. Each of them reads the whole file.
const MAX_EDITS: usize = 200;

#[derive(Debug, Deserialize)]
pub(super) struct Edit {
    #[serde(alias = "old_string", alias = "old_str", alias = "old", alias = "search")]
    pub(super) old_text: String,
    #[serde(alias = "new_string", alias = "new_str", alias = "new", alias = "replace")]
    pub(super) new_text: String,
    #[serde(default, deserialize_with = "input::flag")]
    pub(super) replace_all: bool,
}

#[derive(Debug, PartialEq)]
pub(super) struct Replaced {
    pub(super) text: String,
    pub(super) occurrences: usize,
    /// Of the first edit, counted from 1.
    pub(super) first_line: usize,
}

/// Makes the edits in order. An error says which one failed, and why. No text on the way grows beyond `largest`,
/// whether the edits are made in the end or not.
pub(super) fn apply(text: &str, edits: &[Edit], largest: usize) -> Result<Replaced, String> {
    if edits.len() > MAX_EDITS {
        return Err(format!("there are {} edits; at most {MAX_EDITS} are made in one call", edits.len()));
    }
    let mut replaced = Replaced { text: text.to_owned(), occurrences: 0, first_line: 1 };
    for (index, edit) in edits.iter().enumerate() {
        apply_one(&mut replaced, edit, index == 0, largest).map_err(|reason| match edits.len() {
            1 => reason,
            all => format!("edit {} of {all}: {reason}; none was made", index + 1),
        })?;
    }
    if replaced.text == text {
        return Err("the edits together change nothing".to_owned());
    }
    Ok(replaced)
}

fn apply_one(replaced: &mut Replaced, edit: &Edit, is_first: bool, largest: usize) -> Result<(), String> {
    if edit.old_text.is_empty() {
        return Err("`old_text` is empty; use write_file to create or rewrite a file".to_owned());
    }
    if edit.old_text == edit.new_text {
        return Err("`old_text` and `new_text` are the same".to_owned());
    }
    let text = &replaced.text;
    let (old, new) = with_line_endings(text, edit);
    let found = text.matches(&old).count();
    match found {
        0 => return Err(not_found(text, &edit.old_text)),
        1 => {}
        _ if edit.replace_all => {}
        _ => {
            let lines: Vec<_> = text.match_indices(&old).take(5).map(|(at, _)| line_of(text, at).to_string()).collect();
            let more = if found > lines.len() { ", ..." } else { "" };
            return Err(format!(
                "`old_text` occurs {found} times (lines {}{more}); add neighbouring lines to make it unique, or set \
                 `replace_all`",
                lines.join(", ")
            ));
        }
    }
    // Before the text is built: a short edit can make gigabytes of a large file.
    let size = (text.len() - found * old.len()).saturating_add(found.saturating_mul(new.len()));
    if size > largest {
        return Err(format!(
            "the file would become {}, which is too large for one file",
            domain::text::size(size as u64)
        ));
    }
    if is_first {
        replaced.first_line = text.find(&old).map_or(1, |at| line_of(text, at));
    }
    replaced.text = text.replace(&old, &new);
    replaced.occurrences += found;
    Ok(())
}

/// Models write \n; a file with \r\n wants that in what is searched for and in what is put in.
fn with_line_endings(text: &str, edit: &Edit) -> (String, String) {
    let pair = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    let breaks = text.matches('\n').count();
    let windows = text.matches("\r\n").count();
    let is_exact = text.contains(&edit.old_text);
    let all_windows = windows > 0 && windows == breaks;
    if all_windows || (windows > 0 && !is_exact && text.contains(&to_windows(&edit.old_text))) {
        return pair(&to_windows(&edit.old_text), &to_windows(&edit.new_text));
    }
    pair(&edit.old_text, &edit.new_text)
}

fn to_windows(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn not_found(text: &str, old: &str) -> String {
    let mut reason = "`old_text` does not occur in the file".to_owned();
    if text.len() > LARGEST_GUESSED || old.len() > LONGEST_GUESSED {
        return reason;
    }
    let deadline = Instant::now() + GUESSING;
    if let Some(at) = find_by_words(text, old, deadline) {
        reason.push_str(&format!("; the text at line {at} differs in white space only"));
    } else if let Some((number, line)) = nearest_line(text, old, deadline) {
        reason.push_str(&format!("; the nearest line is {number}: {}", cut(line.trim_end(), 200)));
    }
    reason
}

/// The line where the same words stand, whatever the spaces and line breaks between them.
fn find_by_words(text: &str, old: &str, deadline: Instant) -> Option<usize> {
    let wanted: Vec<_> = old.split_whitespace().collect();
    if wanted.is_empty() {
        return None;
    }
    let mut words: Vec<(usize, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        words.extend(line.split_whitespace().map(|word| (index + 1, word)));
    }
    let fits = |window: &[(usize, &str)]| window.iter().map(|(_, word)| word).eq(&wanted);
    let in_time = |index: usize| !index.is_multiple_of(256) || Instant::now() < deadline;
    let windows = words.windows(wanted.len()).enumerate().take_while(|(index, _)| in_time(*index));
    windows.map(|(_, window)| window).find(|window| fits(window)).map(|window| window[0].0)
}

/// The line most like the first line of the text that was looked for.
fn nearest_line<'a>(text: &'a str, old: &str, deadline: Instant) -> Option<(usize, &'a str)> {
    let wanted = old.lines().map(str::trim).find(|line| !line.is_empty())?;
    if wanted.len() > 400 {
        return None;
    }
    let mut best = (0.6, None);
    for (index, line) in text.lines().enumerate() {
        if Instant::now() > deadline {
            break;
        }
        let candidate = line.trim();
        // Two lines whose lengths differ that much cannot be alike.
        if candidate.len() * 2 < wanted.len() || candidate.len() > wanted.len() * 2 {
            continue;
        }
        let likeness = TextDiff::configure().deadline(deadline).diff_chars(wanted, candidate).ratio();
        if likeness > best.0 {
            best = (likeness, Some((index + 1, line)));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str) -> Edit {
        Edit { old_text: old.to_owned(), new_text: new.to_owned(), replace_all: false }
    }

    fn result(text: &str, edits: &[Edit]) -> String {
        apply(text, edits, 1000).map_or_else(|reason| reason, |replaced| replaced.text)
    }

    #[test]
    fn one_exact_occurrence_is_replaced() {
        let replaced = apply("a\nb\nc\n", &[edit("b\n", "x\ny\n")], 1000).unwrap();
        assert_eq!(replaced, Replaced { text: "a\nx\ny\nc\n".to_owned(), occurrences: 1, first_line: 2 });
    }

    #[test]
    fn several_edits_are_made_in_order_or_not_at_all() {
        assert_eq!(result("a b", &[edit("a", "b c"), edit("c b", "d")]), "b d");
        let reason = result("a b", &[edit("a", "x"), edit("zzz", "y")]);
        assert_eq!(reason, "edit 2 of 2: `old_text` does not occur in the file; none was made");
    }

    #[test]
    fn a_text_that_occurs_twice_needs_replace_all() {
        let reason = result("x\ny\nx\n", &[edit("x", "z")]);
        assert_eq!(
            reason,
            "`old_text` occurs 2 times (lines 1, 3); add neighbouring lines to make it unique, or set `replace_all`"
        );
        let all = Edit { replace_all: true, ..edit("x", "z") };
        assert_eq!(result("x\ny\nx\n", &[all]), "z\ny\nz\n");
    }

    #[test]
    fn a_text_that_does_not_occur_gets_a_hint() {
        let text = "fn main() {\n    let limit = 10;\n}\n";
        assert_eq!(
            result(text, &[edit("let limit = 11;", "x")]),
            "`old_text` does not occur in the file; the nearest line is 2:     let limit = 10;"
        );
        assert_eq!(
            result(text, &[edit("fn main() {\n  let limit = 10;", "x")]),
            "`old_text` does not occur in the file; the text at line 1 differs in white space only"
        );
        assert_eq!(result(text, &[edit("completely different", "x")]), "`old_text` does not occur in the file");
    }

    #[test]
    fn windows_line_endings_are_kept() {
        assert_eq!(result("a\r\nb\r\nc\r\n", &[edit("a\nb", "x\ny\nz")]), "x\r\ny\r\nz\r\nc\r\n");
        assert_eq!(result("a\r\nb\r\nc\n", &[edit("a\nb", "x\ny")]), "x\r\ny\r\nc\n");
        assert_eq!(result("a\nb\n", &[edit("a\nb", "x\ny")]), "x\ny\n");
    }

    #[test]
    fn a_text_that_would_grow_too_large_is_refused_before_it_is_built() {
        let all = |old: &str, new: &str| Edit { replace_all: true, ..edit(old, new) };
        let reason = result(&"a".repeat(100), &[all("a", &"b".repeat(1 << 20))]);
        assert_eq!(reason, "the file would become 100.0 MB, which is too large for one file");
        // Not even on the way.
        let doubling: Vec<Edit> = (0..40).map(|_| all("a", "aa")).chain([all("a", "")]).collect();
        assert_eq!(
            result("a", &doubling),
            "edit 10 of 41: the file would become 1.0 KB, which is too large for one file; none was made"
        );
        let many: Vec<Edit> = (0..201).map(|_| edit("a", "b")).collect();
        assert_eq!(result("a", &many), "there are 201 edits; at most 200 are made in one call");
    }

    #[test]
    fn no_similar_text_is_looked_for_where_that_would_take_long() {
        let text = "some words on a line\n".repeat(100_000);
        assert_eq!(result(&text, &[edit("some words on no line", "x")]), "`old_text` does not occur in the file");
        let old = "w ".repeat(20_000);
        assert_eq!(result("w w w", &[edit(&old, "x")]), "`old_text` does not occur in the file");
    }

    #[test]
    fn edits_that_change_nothing_are_refused() {
        assert_eq!(result("a", &[edit("a", "a")]), "`old_text` and `new_text` are the same");
        assert_eq!(result("a", &[edit("", "b")]), "`old_text` is empty; use write_file to create or rewrite a file");
        assert_eq!(result("a", &[edit("a", "b"), edit("b", "a")]), "the edits together change nothing");
    }
}
