//! Formats a change for the model: the numbered lines around each changed place, or a diff.

use std::fmt::Write as _;
use std::time::Duration;

use domain::text::cut;
use similar::TextDiff;

/// How long comparing two texts may take. After that the diff is correct but longer than necessary.
pub(crate) const COMPARING: Duration = Duration::from_millis(200);

/// How many lines are shown before and after a change.
const CONTEXT: usize = 3;

/// The most lines of one place, and the most bytes of all places together.
const LONGEST_PLACE: usize = 40;
const LONGEST_SNIPPET: usize = 6 << 10;

/// The most bytes of a diff.
const LONGEST_DIFF: usize = 4 << 10;

/// The most characters that are shown of a line.
const LONGEST_LINE: usize = 300;

/// Returns the changed places of the new text, numbered as in `read_file`.
pub(crate) fn around_changes(old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(COMPARING).diff_lines(old, new);
    let lines: Vec<&str> = new.lines().collect();
    let mut shown = String::new();
    for (index, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (start, end) = (first.new_range().start, last.new_range().end.min(lines.len()));
        if index > 0 {
            shown.push_str("   ...\n");
        }
        let cut_at = end.min(start + LONGEST_PLACE);
        for (index, line) in lines.iter().enumerate().take(cut_at).skip(start) {
            writeln!(shown, "{:>6}\t{}", index + 1, cut(line.trim_end_matches('\r'), LONGEST_LINE))
                .expect("writing to a string does not fail");
        }
        if cut_at < end {
            writeln!(shown, "   [{} more lines]", end - cut_at).expect("writing to a string does not fail");
        }
        if shown.len() > LONGEST_SNIPPET {
            shown.truncate(shown.floor_char_boundary(LONGEST_SNIPPET));
            shown.push_str("\n   [more changes are not shown]\n");
            break;
        }
    }
    if shown.ends_with('\n') {
        shown.pop();
    }
    shown
}

/// Returns a short diff between two texts.
pub(crate) fn what_changed(old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(COMPARING).diff_lines(old, new);
    let mut shown = diff.unified_diff().context_radius(1).missing_newline_hint(false).to_string();
    if shown.len() > LONGEST_DIFF {
        shown.truncate(shown.floor_char_boundary(LONGEST_DIFF));
        shown.push_str("\n[the rest of the changes is not shown]");
    }
    shown.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn numbered(from: usize, to: usize) -> String {
        (from..=to).map(|number| format!("line {number}\n")).collect()
    }

    #[test]
    fn lines_around_each_change_are_numbered() {
        let old = numbered(1, 30);
        let new = old.replace("line 3\n", "third\n").replace("line 20\n", "");
        let shown = "     1\tline 1\n     2\tline 2\n     3\tthird\n     4\tline 4\n     5\tline 5\n     6\tline 6\n   ...\n\
                     \x20   17\tline 17\n    18\tline 18\n    19\tline 19\n    20\tline 21\n    21\tline 22\n    22\tline 23";
        assert_eq!(around_changes(&old, &new), shown);
    }

    #[test]
    fn long_texts_are_truncated() {
        let shown = around_changes("", &numbered(1, 100));
        assert!(shown.ends_with("   [60 more lines]"), "{shown}");
        let (old, new) = (numbered(1, 5000), numbered(1, 5000).replace("0\n", "x\n"));
        let shown = around_changes(&old, &new);
        assert!(shown.len() < LONGEST_SNIPPET + 100 && shown.ends_with("[more changes are not shown]"), "{shown}");
        let diff = what_changed(&old, &new);
        assert!(diff.len() < LONGEST_DIFF + 100 && diff.ends_with("changes is not shown]"), "{diff}");
    }

    #[test]
    fn a_foreign_change_is_a_short_diff() {
        expect![[r"
            @@ -1,3 +1,3 @@
             line 1
            -line 2
            +other
             line 3"]]
        .assert_eq(&what_changed(&numbered(1, 9), &numbered(1, 9).replace("line 2", "other")));
    }
}
