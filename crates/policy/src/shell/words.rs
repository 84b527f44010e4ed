//! Parses one word of shell text: its quotes, escapes and expansions, and the commands inside them.

use super::{Reader, Word, has_substitution, read_at, read_quoted};

impl Reader {
    /// Parses one word.
    pub(super) fn word(&mut self) -> Word {
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => {
                    self.at += 1;
                    match self.next() {
                        Some('\n') | None => {}
                        Some(escaped) => {
                            word.text.push(escaped);
                            word.is_quoted = true;
                        }
                    }
                }
                '\'' => {
                    self.at += 1;
                    self.single_quoted(&mut word);
                    word.is_quoted = true;
                }
                '"' => {
                    self.at += 1;
                    self.quoted(Some('"'), &mut word);
                    word.is_quoted = true;
                }
                '$' | '`' => self.expansion(&mut word, false),
                '=' => {
                    self.at += 1;
                    word.is_assignment |= !word.is_quoted && is_name(&word.text);
                    word.text.push('=');
                }
                _ => {
                    self.at += 1;
                    word.expands |= matches!(c, '*' | '?' | '[') || (c == '{' && self.peek().is_some_and(is_in_word));
                    word.text.push(c);
                }
            }
        }
        // A single bracket is the command `test`.
        word.expands &= word.is_quoted || !matches!(word.text.as_str(), "[" | "[[");
        word
    }

    pub(super) fn single_quoted(&mut self, word: &mut Word) {
        loop {
            match self.next() {
                Some('\'') => return,
                Some(c) => word.text.push(c),
                None => return self.script.is_incomplete = true,
            }
        }
    }

    /// Parses text in which only `$`, backticks and some backslashes are special.
    pub(super) fn quoted(&mut self, end: Option<char>, word: &mut Word) {
        while let Some(c) = self.peek() {
            match c {
                _ if Some(c) == end => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    self.at += 1;
                    match self.next() {
                        Some('\n') | None => {}
                        Some(escaped @ ('$' | '`' | '"' | '\\')) => word.text.push(escaped),
                        Some(other) => word.text.extend(['\\', other]),
                    }
                }
                '$' | '`' => self.expansion(word, true),
                _ => {
                    self.at += 1;
                    word.text.push(c);
                }
            }
        }
        self.script.is_incomplete |= end.is_some();
    }

    /// Parses an expansion, which begins with a dollar sign or a backtick.
    fn expansion(&mut self, word: &mut Word, in_quotes: bool) {
        self.descend();
        self.expand(word, in_quotes);
        self.depth -= 1;
    }

    fn expand(&mut self, word: &mut Word, in_quotes: bool) {
        if self.skip("`") {
            word.expands = true;
            return self.backticks();
        }
        self.at = (self.at + 1).min(self.chars.len());
        match self.peek() {
            Some('(') => {
                word.expands = true;
                self.group();
            }
            Some('{') => {
                word.expands = true;
                self.at += 1;
                self.parameter(in_quotes);
            }
            Some('\'') if !in_quotes => {
                self.at += 1;
                word.is_quoted = true;
                self.escaped_quotes(word);
            }
            Some('"') if !in_quotes => word.expands = true,
            Some(c) if c.is_ascii_alphanumeric() || c == '_' => {
                word.expands = true;
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.at += 1;
                }
            }
            Some('@' | '*' | '#' | '?' | '-' | '$' | '!') => {
                word.expands = true;
                self.at += 1;
            }
            Some('[') => word.expands = true,
            Some(_) | None => word.text.push('$'),
        }
    }

    /// Parses text after `$'`, up to the closing quote. Bash ends such text at a NUL, and some
    /// escapes depend on the locale; in those cases only bash knows the result.
    fn escaped_quotes(&mut self, word: &mut Word) {
        while let Some(c) = self.next() {
            match c {
                '\'' => return,
                '\\' => match self.escape() {
                    Some(meant) => word.text.push(meant),
                    None => word.expands = true,
                },
                _ => word.text.push(c),
            }
        }
        self.script.is_incomplete = true;
    }

    /// Returns the meaning of an escape in `$'...'` if it is certain. The backslash has been
    /// consumed.
    fn escape(&mut self) -> Option<char> {
        match self.next()? {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'e' | 'E' => Some('\u{1b}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            'x' => self.code(16, 2, 0),
            'u' => self.code(16, 4, 0),
            'U' => self.code(16, 8, 0),
            digit @ '0'..='7' => self.code(8, 2, digit.to_digit(8)?),
            same @ ('\\' | '\'' | '"' | '?') => Some(same),
            _ => None,
        }
    }

    fn code(&mut self, base: u32, most: usize, start: u32) -> Option<char> {
        let mut code = start;
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(base)) else { break };
            self.at += 1;
            code = code * base + digit;
        }
        char::from_u32(code).filter(|c| (' '..='~').contains(c) || *c == '\n' || *c == '\t')
    }

    /// Parses `${...}`, which may contain substitutions.
    fn parameter(&mut self, in_quotes: bool) {
        let mut ignored = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '$' | '`' => self.expansion(&mut ignored, in_quotes),
                _ => {
                    self.at += 1;
                    match c {
                        '}' => return,
                        '\\' => self.at = (self.at + 1).min(self.chars.len()),
                        '\'' if !in_quotes => {
                            // Arithmetic in a subscript expands the text once more.
                            let mut text = Word::default();
                            self.single_quoted(&mut text);
                            if has_substitution(&text.text) {
                                self.adopt(read_quoted(&text.text, self.depth));
                            }
                        }
                        '"' => self.quoted(Some('"'), &mut ignored),
                        _ => {}
                    }
                }
            }
        }
        self.script.is_incomplete = true;
    }

    fn backticks(&mut self) {
        let mut inner = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') if self.peek().is_some_and(|c| "`\\$".contains(c)) => inner.extend(self.next()),
                Some(c) => inner.push(c),
                None => {
                    self.script.is_incomplete = true;
                    break;
                }
            }
        }
        self.adopt(read_at(&inner, self.depth));
    }
}

fn is_in_word(c: char) -> bool {
    !c.is_whitespace() && !";&|()<>".contains(c)
}

/// Returns whether a text is the left side of an assignment: a variable, possibly with a subscript
/// or `+`.
fn is_name(text: &str) -> bool {
    let name = text.strip_suffix('+').unwrap_or(text);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
