//! Characters that look like plain ones: typographic quotes, dashes and spaces. Models often write one for the other.

/// The plain character for each of those that look like it. Always one for one.
fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    }
}

/// The text with as many characters, all of them plain.
pub(crate) fn plainly(text: &str) -> String {
    text.chars().map(plain).collect()
}
