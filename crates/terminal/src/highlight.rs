//! Highlights code by its language, line by line.
//!
//! The grammars are loaded when the first block of code is shown, which takes about 10 ms, and the
//! grammar of a language is compiled when it is first used. None of this runs in a pipe.

use std::sync::OnceLock;

use syntect::easy::ScopeRegionIterator;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use crate::style::{Colors, Style};

/// The longest line that is highlighted, in bytes. Grammars are slow on longer lines, and these are
/// seldom read.
const MAX_LINE_BYTES: usize = 2000;

/// Prefixes of scopes and their styles. The innermost scope with a style decides, and the first
/// prefix that matches it.
const STYLES: [(&str, Style); 14] = [
    ("comment", Style::Dim),
    ("punctuation.definition.comment", Style::Dim),
    ("string", Style::Green),
    ("punctuation.definition.string", Style::Green),
    ("constant", Style::Cyan),
    ("keyword.operator", Style::Plain),
    ("keyword", Style::Magenta),
    ("storage", Style::Magenta),
    ("entity.name.function", Style::Blue),
    ("support.function", Style::Blue),
    ("entity.name", Style::Yellow),
    ("support.type", Style::Yellow),
    ("markup.inserted", Style::Green),
    ("markup.deleted", Style::Red),
];

fn syntaxes() -> &'static SyntaxSet {
    static SYNTAXES: OnceLock<SyntaxSet> = OnceLock::new();
    SYNTAXES.get_or_init(two_face::syntax::extra_no_newlines)
}

fn styles() -> &'static [(Scope, Style)] {
    static SCOPES: OnceLock<Vec<(Scope, Style)>> = OnceLock::new();
    SCOPES.get_or_init(|| STYLES.iter().filter_map(|(name, style)| Some((Scope::new(name).ok()?, *style))).collect())
}

pub(crate) struct Highlighter {
    state: ParseState,
    scopes: ScopeStack,
}

impl Highlighter {
    /// Creates a highlighter for the first word after a fence, such as `rust` or `py`. Returns None
    /// if the language is unknown.
    pub(crate) fn of(language: &str) -> Option<Self> {
        let word = language.split([' ', ',', '{']).next().filter(|word| !word.is_empty())?;
        let syntax = syntaxes().find_syntax_by_token(word)?;
        Some(Self { state: ParseState::new(syntax), scopes: ScopeStack::new() })
    }

    /// Highlights the next line, which is given without its line end.
    pub(crate) fn line(&mut self, line: &str) -> String {
        if line.len() > MAX_LINE_BYTES {
            return line.to_owned();
        }
        let Ok(changes) = self.state.parse_line(line, syntaxes()) else { return line.to_owned() };
        let mut out = String::new();
        for (text, change) in ScopeRegionIterator::new(&changes, line) {
            // A grammar that pops too many scopes only loses its colours.
            let _ = self.scopes.apply(change);
            if !text.is_empty() {
                out.push_str(&Colors::On.apply(style(&self.scopes), text));
            }
        }
        out
    }
}

fn style(scopes: &ScopeStack) -> Style {
    let of = |scope: &Scope| styles().iter().find(|(start, _)| start.is_prefix_of(*scope)).map(|(_, style)| *style);
    scopes.as_slice().iter().rev().find_map(of).unwrap_or(Style::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_coloured_by_its_language_and_keeps_every_letter() {
        let mut rust = Highlighter::of("rust,ignore").unwrap();
        assert_eq!(rust.line("// why"), "\u{1b}[2m//\u{1b}[0m\u{1b}[2m why\u{1b}[0m");
        let line = rust.line("fn main() { \"text\" }");
        assert!(line.starts_with("\u{1b}[35mfn\u{1b}[0m \u{1b}[34mmain\u{1b}[0m("), "{line:?}");
        assert!(line.contains("\u{1b}[32mtext\u{1b}[0m"), "{line:?}");
        assert!(Highlighter::of("no such language").is_none() && Highlighter::of("").is_none());
        let long = "x".repeat(MAX_LINE_BYTES + 1);
        assert_eq!(rust.line(&long), long);
    }
}
