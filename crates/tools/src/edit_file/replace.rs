//! Replacements in a text: exact ones, ones that ignore a small difference, and hints for the model
//! when they fail. Knows no files.

mod lenient;
#[cfg(test)]
mod misses;

use std::time::{Duration, Instant};

use domain::text::cut;
use serde::Deserialize;
use similar::TextDiff;

use crate::input;
use lenient::{InexactMatch, Search};

/// How long the search for a similar text may take, per edit and for all edits of a call.
const GUESSING: Duration = Duration::from_millis(200);
const GUESSING_IN_ALL: Duration = Duration::from_secs(1);

/// The largest file, and the longest missing text, for which a similar text is searched for.
const LARGEST_GUESSED: usize = 1 << 20;
const LONGEST_GUESSED: usize = 16 << 10;

/// The most edits in one call. Each of them reads the whole file.
const MAX_EDITS: usize = 200;

/// The most bytes that the edits of one call may read in total, beyond one reading of the file.
const MAX_READ: usize = 64 << 20;

/// The most bytes that the edits of one call may add beyond their own texts. Otherwise edits that
/// each double the text would be refused only after megabytes were built.
const MAX_GROWTH: usize = 2 << 20;

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
    /// The line of the first edit, counted from 1.
    pub(super) first_line: usize,
    /// What was ignored to find a text, as notes for the model.
    pub(super) notes: Vec<String>,
}

/// How closely an old text must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matching {
    /// A unique match may differ a little, see `lenient`.
    Lenient,
    /// It must occur exactly and only once, because the model has not seen the current content of
    /// the file.
    ExactlyOnce,
}

/// The limits for the edits of one call.
#[derive(Debug)]
struct Bounds {
    /// The largest text, including intermediate ones.
    largest: usize,
    /// The largest text that the limit on growth allows.
    grown: usize,
    /// The number of bytes that may still be read.
    to_read: usize,
    /// The time at which the search for similar texts ends.
    deadline: Instant,
}

impl Bounds {
    fn new(text: &str, edits: &[Edit], largest: usize) -> Self {
        let written: usize = edits.iter().map(|edit| edit.new_text.len()).sum();
        let grown = text.len().saturating_add(written).saturating_add(MAX_GROWTH);
        let to_read = text.len().saturating_add(MAX_READ);
        Self { largest, grown, to_read, deadline: Instant::now() + GUESSING_IN_ALL }
    }

    /// Counts one reading of a text against the limit.
    fn read(&mut self, text: &str) -> Result<(), String> {
        let left = self.to_read.checked_sub(text.len());
        self.to_read = left.ok_or("the file is too large for that many edits; make fewer in one call")?;
        Ok(())
    }

    /// Checks the size of a text before it is built, because a short edit can turn a large file
    /// into gigabytes.
    fn check_size(&self, size: usize) -> Result<(), String> {
        if size <= self.largest.min(self.grown) {
            return Ok(());
        }
        let becomes = format!("the file would become {}", domain::text::size(size as u64));
        Err(match size > self.largest {
            true => format!("{becomes}, which is too large for one file"),
            false => format!("{becomes}, much larger than the file and the new texts together; use a command for that"),
        })
    }

    /// Returns the time at which a search that begins now must end.
    fn search_until(&self) -> Instant {
        self.deadline.min(Instant::now() + GUESSING)
    }
}

/// Makes the edits in order. The error names the one that failed, and why. No intermediate text
/// grows beyond `largest`, even if an edit fails in the end.
pub(super) fn apply(text: &str, edits: &[Edit], largest: usize, matching: Matching) -> Result<Replaced, String> {
    apply_within(&mut Bounds::new(text, edits, largest), text, edits, matching)
}

fn apply_within(bounds: &mut Bounds, text: &str, edits: &[Edit], matching: Matching) -> Result<Replaced, String> {
    if edits.len() > MAX_EDITS {
        return Err(format!("there are {} edits; at most {MAX_EDITS} are made in one call", edits.len()));
    }
    let endings = LineEndings::of(text);
    let mut replaced = Replaced { text: text.to_owned(), occurrences: 0, first_line: 1, notes: Vec::new() };
    for (index, edit) in edits.iter().enumerate() {
        let is_first = index == 0;
        let ignored = bounds
            .read(&replaced.text)
            .and_then(|()| apply_one(&mut replaced, edit, endings, is_first, bounds, matching));
        let ignored = ignored.map_err(|reason| match edits.len() {
            1 => reason,
            all => format!("edit {} of {all}: {reason}; none was made", index + 1),
        })?;
        replaced.notes.extend(ignored.map(|ignored| match edits.len() {
            1 => format!("`old_text` did not match exactly; it was found by ignoring {ignored}"),
            _ => format!("edit {} did not match exactly; it was found by ignoring {ignored}", index + 1),
        }));
    }
    if replaced.text == text {
        return Err("the edits together change nothing".to_owned());
    }
    Ok(replaced)
}

/// Makes one edit. Returns what had to be ignored to find its text.
fn apply_one(
    replaced: &mut Replaced,
    edit: &Edit,
    endings: LineEndings,
    is_first: bool,
    bounds: &Bounds,
    matching: Matching,
) -> Result<Option<String>, String> {
    if edit.old_text.is_empty() {
        return Err("`old_text` is empty; use write_file to create or rewrite a file".to_owned());
    }
    if edit.old_text == edit.new_text {
        return Err("`old_text` and `new_text` are the same".to_owned());
    }
    let text = &replaced.text;
    let (old, new) = endings.of_edit(text, edit);
    let found = text.matches(&old).count();
    match found {
        0 if matching == Matching::Lenient => return apply_lenient(replaced, edit, is_first, bounds).map(Some),
        0 => return Err(not_found(text, &edit.old_text)),
        1 => {}
        _ if edit.replace_all && matching == Matching::Lenient => {}
        _ => {
            let lines: Vec<_> = text.match_indices(&old).take(5).map(|(at, _)| line_of(text, at)).collect();
            return Err(several(&format!("`old_text` occurs {found} times"), &lines, found));
        }
    }
    bounds.check_size((text.len() - found * old.len()).saturating_add(found.saturating_mul(new.len())))?;
    if is_first {
        replaced.first_line = text.find(&old).map_or(1, |at| line_of(text, at));
    }
    replaced.text = text.replace(&old, &new);
    replaced.occurrences += found;
    Ok(None)
}

/// Makes an edit whose text does not occur exactly, if a search that ignores small differences
/// finds exactly one place.
fn apply_lenient(replaced: &mut Replaced, edit: &Edit, is_first: bool, bounds: &Bounds) -> Result<String, String> {
    let text = &replaced.text;
    if text.len() > LARGEST_GUESSED || edit.old_text.len() > LONGEST_GUESSED {
        return Err(not_found(text, &edit.old_text));
    }
    match lenient::find(text, &edit.old_text, &edit.new_text, bounds.search_until()) {
        Search::Nothing => Err(not_found(text, &edit.old_text)),
        Search::Several { lines, ignoring } => {
            let what = format!("`old_text` does not occur exactly, and several times if {ignoring} is ignored");
            Err(several(&what, &lines, lines.len()))
        }
        Search::Unique(InexactMatch { range, replacement, ignoring }) => {
            bounds.check_size(text.len() - range.len() + replacement.len())?;
            if is_first {
                replaced.first_line = line_of(text, range.start);
            }
            replaced.text.replace_range(range, &replacement);
            replaced.occurrences += 1;
            Ok(ignoring)
        }
    }
}

fn several(what: &str, lines: &[usize], found: usize) -> String {
    let shown: Vec<_> = lines.iter().map(usize::to_string).collect();
    let more = if found > lines.len() { ", ..." } else { "" };
    format!("{what} (lines {}{more}); add neighbouring lines to make it unique, or set `replace_all`", shown.join(", "))
}

/// The line endings of a file. Models write \n; in a file with \r\n, both texts of an edit must use
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEndings {
    Unix,
    Windows,
    Mixed,
}

impl LineEndings {
    fn of(text: &str) -> Self {
        let (breaks, windows) = (text.matches('\n').count(), text.matches("\r\n").count());
        match windows {
            0 => Self::Unix,
            _ if windows == breaks => Self::Windows,
            _ => Self::Mixed,
        }
    }

    /// Returns the texts of an edit with the line endings of the file, or of the place where the
    /// old text is.
    fn of_edit(self, text: &str, edit: &Edit) -> (String, String) {
        let is_windows = match self {
            Self::Unix => false,
            Self::Windows => true,
            Self::Mixed => !text.contains(&edit.old_text) && text.contains(&to_windows(&edit.old_text)),
        };
        match is_windows {
            true => (to_windows(&edit.old_text), to_windows(&edit.new_text)),
            false => (edit.old_text.clone(), edit.new_text.clone()),
        }
    }
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

/// Returns the line at which the same words occur, ignoring spaces and line breaks between them.
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

/// Returns the line that is most similar to the first line of the wanted text.
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
        // Two lines whose lengths differ that much cannot be similar.
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
        apply(text, edits, 1000, Matching::Lenient).map_or_else(|reason| reason, |replaced| replaced.text)
    }

    #[test]
    fn one_exact_occurrence_is_replaced() {
        let replaced = apply("a\nb\nc\n", &[edit("b\n", "x\ny\n")], 1000, Matching::ExactlyOnce).unwrap();
        let expected = Replaced { text: "a\nx\ny\nc\n".to_owned(), occurrences: 1, first_line: 2, notes: Vec::new() };
        assert_eq!(replaced, expected);
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
            result(text, &[edit("fn main() { let limit = 10;", "x")]),
            "`old_text` does not occur in the file; the text at line 1 differs in white space only"
        );
        assert_eq!(result(text, &[edit("completely different", "x")]), "`old_text` does not occur in the file");
    }

    #[test]
    fn a_file_changed_since_it_was_read_needs_exact_unique_matches() {
        let strict = |text: &str, edit: Edit| apply(text, &[edit], 1000, Matching::ExactlyOnce).unwrap_err();
        assert!(strict("a  \nb\n", edit("a\nb", "x")).starts_with("`old_text` does not occur in the file"));
        let all = Edit { replace_all: true, ..edit("a", "x") };
        assert!(strict("a\na\n", all).starts_with("`old_text` occurs 2 times (lines 1, 2)"));
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
        // Intermediate texts must not exceed the limit either.
        let doubling: Vec<Edit> = (0..40).map(|_| all("a", "aa")).chain([all("a", "")]).collect();
        assert_eq!(
            result("a", &doubling),
            "edit 10 of 41: the file would become 1.0 KB, which is too large for one file; none was made"
        );
        // A text that grows in many small steps must not cause much reading or building either.
        let largest = 32 << 20;
        let mut bounds = Bounds::new("a", &doubling, largest);
        let allowed = bounds.to_read;
        let reason = apply_within(&mut bounds, "a", &doubling, Matching::Lenient).unwrap_err();
        let much = "much larger than the file and the new texts together; use a command for that; none was made";
        assert_eq!(reason, format!("edit 22 of 41: the file would become 4.0 MB, {much}"));
        assert!(allowed - bounds.to_read <= 4 * MAX_GROWTH, "{} bytes were read", allowed - bounds.to_read);
        // A text that grows and shrinks is read only a limited number of times.
        let text = "a".repeat(64 << 10);
        let waves: Vec<Edit> = (0..100).flat_map(|_| [all("a", "aa"), all("aa", "a")]).collect();
        let reason = apply(&text, &waves[..6], largest, Matching::Lenient).unwrap_err();
        assert_eq!(reason, "the edits together change nothing");
        let mut bounds = Bounds { to_read: 512 << 10, ..Bounds::new(&text, &waves, largest) };
        let reason = apply_within(&mut bounds, &text, &waves, Matching::Lenient).unwrap_err();
        let fewer = "the file is too large for that many edits; make fewer in one call; none was made";
        assert_eq!(reason, format!("edit 6 of 200: {fewer}"));
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
