//! Finds a text that occurs in a file only if one kind of difference is ignored. Knows no files.
//!
//! The kinds of difference are tried from the least to the most tolerant, and only a unique match
//! counts. Text that the edit does not change stays as it is in the file, and new text gets the
//! file's indentation.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use crate::lookalikes::replace_lookalikes;

/// The place where an old text was found, and the text to put there.
#[derive(Debug, PartialEq)]
pub(super) struct InexactMatch {
    pub(super) range: Range<usize>,
    pub(super) replacement: String,
    /// What was ignored to find it, as a note for the model.
    pub(super) ignoring: String,
}

#[derive(Debug, PartialEq)]
pub(super) enum Search {
    Unique(InexactMatch),
    /// The text occurs more than once if small differences are ignored. `lines` are the first lines
    /// of its occurrences.
    Several {
        lines: Vec<usize>,
        ignoring: String,
    },
    Nothing,
}

/// One kind of difference to ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tolerance {
    Exact,
    TrailingSpace,
    Indentation,
    Quotes,
    TrimmedLines,
}

impl Tolerance {
    const ALL: [Self; 5] = [Self::Exact, Self::TrailingSpace, Self::Indentation, Self::Quotes, Self::TrimmedLines];

    fn ignored(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::TrailingSpace => "white space at the ends of lines",
            Self::Indentation => "a shifted indentation",
            Self::Quotes => "the shape of quotes, dashes and spaces",
            Self::TrimmedLines => "white space around lines and the shape of quotes",
        }
    }
}

/// The text to search for and its replacement, after a typical mistake of models was corrected.
struct Variant {
    old: String,
    new: String,
    ignored: &'static str,
}

/// Searches for `old` in `text`. Gives up at the deadline.
pub(super) fn find(text: &str, old: &str, new: &str, deadline: Instant) -> Search {
    if old.trim().is_empty() {
        return Search::Nothing;
    }
    for variant in variants(old, new) {
        for tolerance in Tolerance::ALL {
            if Instant::now() > deadline {
                return Search::Nothing;
            }
            let ignoring = [variant.ignored, tolerance.ignored()];
            let ignoring = ignoring.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" and ");
            let mut found = matches(text, &variant, tolerance, deadline);
            match found.len() {
                0 => {}
                1 => {
                    let (range, replacement) = found.remove(0);
                    return Search::Unique(InexactMatch { range, replacement, ignoring });
                }
                _ => {
                    let lines = found.iter().map(|(range, _)| super::line_of(text, range.start)).collect();
                    return Search::Several { lines, ignoring };
                }
            }
        }
    }
    Search::Nothing
}

fn variants(old: &str, new: &str) -> Vec<Variant> {
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    let mut variants = Vec::new();
    if let Some(bare) = without_numbers(&old) {
        let new = without_numbers(&new).unwrap_or_else(|| new.clone());
        variants.push(Variant { old: bare, new, ignored: "line numbers" });
    }
    let trimmed = (without_blank_edges(&old), without_blank_edges(&new));
    if trimmed.0 != old {
        variants.push(Variant { old: trimmed.0, new: trimmed.1, ignored: "blank lines around it" });
    }
    if old.contains('\\') {
        variants.push(Variant { old: unescaped(&old), new: unescaped(&new), ignored: "one level of backslashes" });
    }
    variants.insert(0, Variant { old, new, ignored: "" });
    variants
}

/// Returns the text without the line numbers of `read_file`, if all its lines have them.
fn without_numbers(text: &str) -> Option<String> {
    let bare = |line: &str| {
        let (number, rest) = line.split_once('\t')?;
        let number = number.trim();
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then(|| rest.to_owned())
    };
    let ends = if text.ends_with('\n') { "\n" } else { "" };
    let lines: Option<Vec<String>> = text.strip_suffix('\n').unwrap_or(text).split('\n').map(bare).collect();
    Some(lines?.join("\n") + ends)
}

fn without_blank_edges(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let Some(first) = lines.iter().position(|line| !line.trim().is_empty()) else { return String::new() };
    let last = lines.iter().rposition(|line| !line.trim().is_empty()).unwrap_or(first);
    lines[first..=last].join("\n")
}

/// Returns the text with one level of backslash escapes decoded, for models that escape their JSON
/// twice.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some(c @ ('"' | '\'' | '\\' | '`')) => plain.push(c),
            Some(c) => plain.extend(['\\', c]),
            None => plain.push('\\'),
        }
    }
    plain
}

/// Returns all matches, up to the number that a message needs.
fn matches(text: &str, variant: &Variant, tolerance: Tolerance, deadline: Instant) -> Vec<(Range<usize>, String)> {
    let Variant { old, new, .. } = variant;
    match tolerance {
        Tolerance::Exact => {
            let found = text.match_indices(old.as_str()).take(5);
            found.map(|(at, _)| (at..at + old.len(), new.clone())).collect()
        }
        Tolerance::Quotes => match_quotes(text, old, new),
        Tolerance::TrailingSpace | Tolerance::Indentation | Tolerance::TrimmedLines => {
            match_lines(text, old, new, tolerance, deadline)
        }
    }
}

fn match_quotes(text: &str, old: &str, new: &str) -> Vec<(Range<usize>, String)> {
    let (haystack, needle) = (replace_lookalikes(text), replace_lookalikes(old));
    let byte = |at: usize| {
        let chars = haystack[..at].chars().count();
        text.char_indices().nth(chars).map_or(text.len(), |(byte, _)| byte)
    };
    let places = haystack.match_indices(&needle).take(5);
    let found = places.map(|(at, _)| {
        let range = byte(at)..byte(at + needle.len());
        let replacement = keep_common(&text[range.clone()], old, new);
        (range, replacement)
    });
    found.collect()
}

/// Returns the new text with the characters of the file at both ends, as far as the edit does not
/// change them.
fn keep_common(file: &str, old: &str, new: &str) -> String {
    let (file, old, new): (Vec<char>, Vec<char>, Vec<char>) =
        (file.chars().collect(), old.chars().collect(), new.chars().collect());
    let (head, tail) = common_ends(&old, &new);
    let middle = &new[head..new.len() - tail];
    file[..head].iter().chain(middle).chain(&file[file.len() - tail..]).collect()
}

/// Returns how many items two lists have in common at their beginnings and at their ends, without
/// overlap.
fn common_ends<T: PartialEq>(one: &[T], other: &[T]) -> (usize, usize) {
    let head = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[head..], &other[head..]);
    let tail = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    (head, tail)
}

/// Returns the lines of a text, and whether it ends with a line break.
fn lines(text: &str) -> (Vec<&str>, bool) {
    if text.is_empty() {
        return (Vec::new(), false);
    }
    (text.strip_suffix('\n').unwrap_or(text).split('\n').collect(), text.ends_with('\n'))
}

/// One line of the file and its position, without its line break.
struct FileLine<'a> {
    start: usize,
    text: &'a str,
}

fn file_lines(text: &str) -> Vec<FileLine<'_>> {
    let mut start = 0;
    let whole = text.split_inclusive('\n').map(|line| {
        let line_start = start;
        start += line.len();
        FileLine { start: line_start, text: line.trim_end_matches(['\n', '\r']) }
    });
    whole.collect()
}

fn match_lines(
    text: &str,
    old: &str,
    new: &str,
    tolerance: Tolerance,
    deadline: Instant,
) -> Vec<(Range<usize>, String)> {
    let ((old_lines, old_ends), (new_lines, new_ends)) = (lines(old), lines(new));
    let file = file_lines(text);
    let key = |line: &str| match tolerance {
        Tolerance::TrailingSpace => line.trim_end().to_owned(),
        Tolerance::Indentation => line.trim().to_owned(),
        Tolerance::TrimmedLines | Tolerance::Exact | Tolerance::Quotes => replace_lookalikes(line.trim()),
    };
    let file_keys: Vec<String> = file.iter().map(|line| key(line.text)).collect();
    let old_keys: Vec<String> = old_lines.iter().map(|line| key(line)).collect();
    let mut found = Vec::new();
    for (first, window) in file_keys.windows(old_keys.len().max(1)).enumerate() {
        if first.is_multiple_of(256) && Instant::now() > deadline {
            return Vec::new();
        }
        if window != old_keys.as_slice() {
            continue;
        }
        let block = &file[first..first + old_lines.len()];
        let indents = indents(block, &old_lines);
        if tolerance == Tolerance::Indentation && indents.is_none() {
            continue;
        }
        let (Some(head), Some(last)) = (block.first(), block.last()) else { continue };
        let mut end = last.start + last.text.len();
        let line_end = if text[end..].starts_with("\r\n") { "\r\n" } else { "\n" };
        let (kept_head, kept_tail) = common_ends(&old_lines, &new_lines);
        let middle = new_lines[kept_head..new_lines.len() - kept_tail].iter().map(|line| match tolerance {
            Tolerance::TrailingSpace | Tolerance::Exact | Tolerance::Quotes => (*line).to_owned(),
            Tolerance::Indentation | Tolerance::TrimmedLines => reindented(line, &first_indents(block, &old_lines)),
        });
        let whole: Vec<String> = (block[..kept_head].iter().map(|line| line.text.to_owned()))
            .chain(middle)
            .chain(block[block.len() - kept_tail..].iter().map(|line| line.text.to_owned()))
            .collect();
        let mut replacement = whole.join(line_end);
        if old_ends && !new_ends && text[end..].starts_with(line_end) {
            end += line_end.len();
        } else if new_ends && !old_ends {
            replacement.push_str(line_end);
        }
        found.push((head.start..end, replacement));
        if found.len() == 5 {
            break;
        }
    }
    found
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Maps each indentation of the old text to the one in the file. Returns None if the mapping is
/// ambiguous.
fn indents<'a>(block: &[FileLine<'a>], old: &[&'a str]) -> Option<BTreeMap<&'a str, &'a str>> {
    let known = first_indents(block, old);
    let pairs = block.iter().zip(old).filter(|(line, _)| !line.text.trim().is_empty());
    let mut pairs = pairs.map(|(line, old)| (indent(line.text), indent(old)));
    pairs.all(|(file, old)| known.get(old) == Some(&file)).then_some(known)
}

/// The same, but the first line with an indentation decides.
fn first_indents<'a>(block: &[FileLine<'a>], old: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    let mut known = BTreeMap::new();
    for (line, old) in block.iter().zip(old).filter(|(line, _)| !line.text.trim().is_empty()) {
        known.entry(indent(old)).or_insert(indent(line.text));
    }
    known
}

/// Returns a new line with the file's indentation instead of the model's.
fn reindented(line: &str, known: &BTreeMap<&str, &str>) -> String {
    let (own, rest) = (indent(line), line.trim_start());
    if rest.is_empty() {
        return String::new();
    }
    if let Some(file) = known.get(own) {
        return format!("{file}{rest}");
    }
    // The deepest known indentation that this one extends, or else the one of which it is a part.
    if let Some((old, file)) = known.iter().filter(|(old, _)| own.starts_with(**old)).max_by_key(|(old, _)| old.len()) {
        return format!("{file}{}{rest}", in_units(&own[old.len()..], known));
    }
    match known.iter().find(|(old, _)| old.starts_with(own)) {
        Some((old, file)) => {
            let less = in_units(&old[own.len()..], known);
            format!("{}{rest}", file.strip_suffix(less.as_str()).unwrap_or_default())
        }
        None => line.to_owned(),
    }
}

/// Converts additional indentation to tabs if the file uses tabs where the model used spaces, and
/// vice versa.
fn in_units(more: &str, known: &BTreeMap<&str, &str>) -> String {
    let with_tabs = known.values().any(|file| file.contains('\t'));
    let with_spaces = known.values().any(|file| file.contains(' '));
    if with_tabs && more.contains(' ') {
        let unit = known.keys().map(|old| old.len()).filter(|length| *length > 0).min().unwrap_or(4);
        return "\t".repeat(more.len().div_ceil(unit.min(8)));
    }
    if with_spaces && !with_tabs && more.contains('\t') {
        let deepest =
            known.iter().filter(|(old, _)| old.contains('\t')).map(|(old, file)| file.len() / old.len()).max();
        return " ".repeat(more.len() * deepest.unwrap_or(4).clamp(1, 8));
    }
    more.to_owned()
}
