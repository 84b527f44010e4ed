//! Small helpers for text that people and models read: shortening, counting and sizes.

/// Keeps at most `limit` characters, and adds an ellipsis if there were more.
pub fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Formats a number with its noun: "1 line", "3 lines".
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Formats a number of bytes in a readable unit.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_counts_characters_and_marks_what_is_missing() {
        assert_eq!(cut("grün", 4), "grün");
        assert_eq!(cut("grün", 3), "grü…");
    }

    #[test]
    fn sizes_and_counts_are_readable() {
        assert_eq!((size(1023), size(1536), size(5 << 20)), ("1023 bytes".into(), "1.5 KB".into(), "5.0 MB".into()));
        assert_eq!((count(1, "line"), count(0, "line")), ("1 line".into(), "0 lines".into()));
    }
}
