//! Typographic quotes, dashes and spaces, which look like ASCII characters. Models often write one
//! for the other.

/// Returns the ASCII character that a character looks like, or the character itself.
fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    }
}

/// Returns the text with every lookalike replaced. The number of characters stays the same.
pub(crate) fn replace_lookalikes(text: &str) -> String {
    text.chars().map(plain).collect()
}
