//! Formats the difference between two texts in a few lines: the changed lines with their numbers
//! and some unchanged lines around them.

use std::time::Duration;

use domain::escape;
use similar::{ChangeTag, TextDiff};

use crate::excerpt::more_lines;
use crate::style::{Colors, Style};

/// The number of unchanged lines around each change.
const AROUND: usize = 1;

/// After this time the rest of two very different texts is shown as replaced, which is correct but
/// not the shortest form.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

pub fn render(old: &str, new: &str, most: usize, colors: Colors) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old, new);
    let mut lines = Vec::new();
    for (group, at) in diff.grouped_ops(AROUND).iter().zip(0..) {
        if at > 0 {
            lines.push(colors.apply(Style::Dim, "       ⋮"));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let number = change.new_index().or(change.old_index()).map_or(0, |index| index + 1);
            let style = match change.tag() {
                ChangeTag::Equal => Style::Dim,
                ChangeTag::Delete => Style::Red,
                ChangeTag::Insert => Style::Green,
            };
            // Invisible characters are written out, including a carriage return at the end of a
            // line.
            let text = escape::text(change.value().trim_end_matches('\n'));
            lines.push(colors.apply(style, &format!("  {number:>4} {}{text}", change.tag())));
        }
    }
    match lines.len().checked_sub(most) {
        None | Some(0) => {}
        Some(more) => {
            lines.truncate(most);
            lines.push(colors.apply(Style::Dim, &format!("       … {}", more_lines(more))));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_diff_shows_the_changes_up_to_a_limit() {
        let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
        let new = "one\n2\nthree\nfour\nfive\nsix\n7\n";
        let shown = format!("changes:\n{}", render(old, new, 12, Colors::Off));
        expect![[r#"
            changes:
                 1  one
                 2 -two
                 2 +2
                 3  three
                   ⋮
                 6  six
                 7 -seven
                 7 +7"#]]
        .assert_eq(&shown);
        let long: String = (0..20).map(|line| format!("{line}\n")).collect();
        assert!(render("", &long, 12, Colors::Off).ends_with("    12 +11\n       … 8 more lines"));
        assert_eq!(render("a\n", "a\u{202e} \r\n", 9, Colors::Off), "     1 -a\n     1 +a\\u{202e} \\u{d}");
        assert_eq!(render("a\n", "b\n", 9, Colors::On), "\u{1b}[31m     1 -a\u{1b}[0m\n\u{1b}[32m     1 +b\u{1b}[0m");
    }
}
