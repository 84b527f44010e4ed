//! Shortens a text to its first or last lines, with a note about the omitted lines.

pub(crate) fn indented(text: &str, first: &str, then: &str) -> String {
    let lines = text.lines().zip(std::iter::once(first).chain(std::iter::repeat(then)));
    lines.map(|(line, indent)| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}

pub(crate) fn first_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(most) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("{}\n… {}", lines[..most].join("\n"), more_lines(more)),
    }
}

pub(crate) fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(most) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("… {}\n{}", more_lines(more), lines[more..].join("\n")),
    }
}

/// Formats the number of further lines, such as `1 more line`.
pub fn more_lines(count: usize) -> String {
    format!("{count} more {}", if count == 1 { "line" } else { "lines" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_say_so() {
        assert_eq!(first_lines("1\n2\n3", 2), "1\n2\n… 1 more line");
        assert_eq!(last_lines("1\n2\n3", 2), "… 1 more line\n2\n3");
        assert_eq!(last_lines("1\n2\n3", 1), "… 2 more lines\n3");
        assert_eq!(indented("a\nb", "x ", "y "), "x a\ny b");
    }
}
