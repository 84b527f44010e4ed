//! Applies the hunks of a patch to the text of one file. Knows no files.
//!
//! Each hunk is searched for after the previous one, first exactly and then ignoring small
//! differences. A match that is inexact, or before the previous hunk, must be unique.

use std::time::{Duration, Instant};

use super::parse::{Hunk, HunkLine};
use crate::lookalikes::replace_lookalikes;

/// How long the search for all hunks of one file may take.
const SEARCHING: Duration = Duration::from_secs(2);

/// How the lines of a hunk are compared with those of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Exact,
    TrailingSpace,
    Trimmed,
}

impl Comparison {
    const ALL: [Self; 3] = [Self::Exact, Self::TrailingSpace, Self::Trimmed];

    fn equal(self, one: &str, other: &str) -> bool {
        match self {
            Self::Exact => one == other,
            Self::TrailingSpace => one.trim_end() == other.trim_end(),
            Self::Trimmed => {
                one.trim() == other.trim() || replace_lookalikes(one.trim()) == replace_lookalikes(other.trim())
            }
        }
    }
}

/// Applies the hunks in order. The error names the one that failed, and why.
pub(super) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let ends = text.is_empty() || text.ends_with('\n');
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let deadline = Instant::now() + SEARCHING;
    let mut at = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        at = apply_one(&mut lines, hunk, at, deadline).map_err(|reason| match hunks.len() {
            1 => reason,
            all => format!("change {} of {all}: {reason}", index + 1),
        })?;
    }
    let mut changed = lines.join(line_end);
    if ends && !lines.is_empty() {
        changed.push_str(line_end);
    }
    Ok(changed)
}

/// Applies one hunk at or after the line `at`, and returns the line after it.
fn apply_one(lines: &mut Vec<String>, hunk: &Hunk, at: usize, deadline: Instant) -> Result<usize, String> {
    let mut from = at;
    for anchor in &hunk.anchors {
        from = 1 + find_anchor(lines, anchor, from)
            .ok_or_else(|| format!("there is no line `{}` for `@@`", domain::text::cut(anchor, 100)))?;
    }
    let old: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            HunkLine::Context(text) | HunkLine::Remove(text) => Some(text.as_str()),
            HunkLine::Add(_) => None,
        })
        .collect();
    let place = if old.is_empty() {
        // The hunk only adds lines: below the anchor, or at the end.
        if hunk.anchors.is_empty() || hunk.at_end { lines.len() } else { from }
    } else {
        find(lines, &old, from, hunk.at_end, deadline)?
    };
    let mut next = place;
    let mut made = Vec::new();
    for line in &hunk.lines {
        match line {
            // Keeps the line of the file, which may differ slightly from the patch.
            HunkLine::Context(_) => {
                made.push(lines[next].clone());
                next += 1;
            }
            HunkLine::Remove(_) => next += 1,
            HunkLine::Add(text) => made.push(text.clone()),
        }
    }
    let length = made.len();
    lines.splice(place..next, made);
    Ok(place + length)
}

fn find_anchor(lines: &[String], anchor: &str, from: usize) -> Option<usize> {
    Comparison::ALL.into_iter().find_map(|comparison| {
        let after = lines.iter().enumerate().skip(from);
        after.filter(|(_, line)| comparison.equal(line, anchor)).map(|(index, _)| index).next()
    })
}

/// Returns the line at which the old lines begin.
fn find(lines: &[String], old: &[&str], from: usize, at_end: bool, deadline: Instant) -> Result<usize, String> {
    let fits = |comparison: Comparison, place: usize| {
        let block = lines.get(place..place + old.len());
        block.is_some_and(|block| block.iter().zip(old).all(|(line, old)| comparison.equal(line, old)))
    };
    for comparison in Comparison::ALL {
        if at_end && let Some(last) = lines.len().checked_sub(old.len()).filter(|last| fits(comparison, *last)) {
            return Ok(last);
        }
        let in_time = |place: &usize| !place.is_multiple_of(256) || Instant::now() < deadline;
        let places = |range: std::ops::Range<usize>| -> Vec<usize> {
            range.take_while(in_time).filter(|place| fits(comparison, *place)).take(2).collect()
        };
        let after = places(from..lines.len());
        match after.as_slice() {
            [first] => return Ok(*first),
            [first, ..] if comparison == Comparison::Exact => return Ok(*first),
            [] => {}
            [..] => return Err(several(old)),
        }
        let before = places(0..from.min(lines.len()));
        match before.as_slice() {
            [only] => return Ok(*only),
            [] => {}
            [..] => return Err(several(old)),
        }
    }
    if Instant::now() > deadline {
        return Err("looking for the lines took too long; use edit_file".to_owned());
    }
    let shown: String = old.iter().take(3).map(|line| format!("\n  {}", domain::text::cut(line, 100))).collect();
    Err(format!("the file does not have these lines, read it again:{shown}"))
}

fn several(old: &[&str]) -> String {
    let first = old.iter().find(|line| !line.trim().is_empty()).copied().unwrap_or_default();
    let first = domain::text::cut(first, 100);
    format!("the lines from `{first}` on occur several times; add lines around them, or a line above after `@@`")
}

#[cfg(test)]
mod tests {
    use super::super::parse::{FilePatch, parse};
    use super::*;

    fn patched(text: &str, body: &str) -> String {
        let patch = format!("*** Begin Patch\n*** Update File: a\n{body}\n*** End Patch");
        let files = parse(&patch).unwrap();
        let FilePatch::Update { hunks, .. } = &files[0] else { panic!("it is an update") };
        apply(text, hunks).unwrap_or_else(|reason| format!("refused: {reason}"))
    }

    #[test]
    fn changes_are_made_one_after_another() {
        let text = "a\nb\nc\nd\ne\n";
        assert_eq!(patched(text, "@@\n a\n-b\n+x\n@@\n d\n-e\n+y\n+z"), "a\nx\nc\nd\ny\nz\n");
        assert_eq!(patched("a\nb\na\nb\n", "@@\n-a\n+1\n@@\n-a\n+2"), "1\nb\n2\nb\n");
        assert_eq!(patched("a\nb\n", "@@\n-a\n-b"), "");
    }

    #[test]
    fn a_header_line_selects_the_place_to_change() {
        let text = "fn a() {\n  x\n}\nfn b() {\n  x\n}\n";
        assert_eq!(patched(text, "@@ fn b() {\n-  x\n+  y"), "fn a() {\n  x\n}\nfn b() {\n  y\n}\n");
        assert_eq!(patched(text, "@@ fn b() {\n+  y"), "fn a() {\n  x\n}\nfn b() {\n  y\n  x\n}\n");
        assert_eq!(patched(text, "@@ fn c() {\n-  x"), "refused: there is no line `fn c() {` for `@@`");
    }

    #[test]
    fn a_hunk_can_refer_to_the_end_of_the_file() {
        assert_eq!(patched("x\ny\nx\n", "@@\n-x\n+z\n*** End of File"), "x\ny\nz\n");
        assert_eq!(patched("x\n", "@@\n+y"), "x\ny\n");
        assert_eq!(patched("", "@@\n+y"), "y\n");
        assert_eq!(patched("x", "@@\n-x\n+y"), "y");
    }

    #[test]
    fn small_differences_are_ignored_where_one_place_is_meant() {
        assert_eq!(patched("a  \nb\n", "@@\n a\n-b\n+c"), "a  \nc\n");
        assert_eq!(patched("  a\n  b\n", "@@\n a\n-b\n+  c"), "  a\n  c\n");
        assert_eq!(patched("say \u{201c}a\u{201d}\nb\n", "@@\n say \"a\"\n-b\n+c"), "say \u{201c}a\u{201d}\nc\n");
        assert_eq!(patched("a\r\nb\r\n", "@@\n a\n-b\n+c"), "a\r\nc\r\n");
        assert!(
            patched("a \nb\na \nb\n", "@@\n a\n-b").starts_with("refused: the lines from `a` on occur several times")
        );
    }

    #[test]
    fn an_earlier_place_counts_if_it_is_the_only_one() {
        assert_eq!(patched("a\nb\nc\n", "@@\n-c\n+3\n@@\n-a\n+1"), "1\nb\n3\n");
        assert_eq!(patched("a\n", "@@\n-b\n+c"), "refused: the file does not have these lines, read it again:\n  b");
    }
}
