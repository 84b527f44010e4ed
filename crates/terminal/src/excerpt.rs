//! Shortens a text to its first or last lines, with a note about the omitted lines.

pub(crate) fn indented(text: &str, first: &str, then: &str) -> String {
    let lines = text.lines().zip(std::iter::once(first).chain(std::iter::repeat(then)));
    lines.map(|(line, indent)| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}

pub(crate) fn first_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(most) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("{}\n… {more} more lines", lines[..most].join("\n")),
    }
}

pub(crate) fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(most) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("… {more} more lines\n{}", lines[more..].join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_say_so() {
        assert_eq!(first_lines("1\n2\n3", 2), "1\n2\n… 1 more lines");
        assert_eq!(last_lines("1\n2\n3", 2), "… 1 more lines\n2\n3");
        assert_eq!(indented("a\nb", "x ", "y "), "x a\ny b");
    }
}
