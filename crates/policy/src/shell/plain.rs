//! Parses a command that is exactly what it looks like: one simple command whose words bash takes
//! literally.
//!
//! Used by code that allows something. It accepts a small part of the language that every shell
//! interprets alike, and rejects the rest: variables, substitutions, arithmetic, braces, `$'...'`,
//! `$"..."`, history, comments, redirections and lists of commands. A rejected command may be
//! harmless; acpd then asks about it.

/// One word of a plain command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainWord {
    /// The text without its quotes.
    pub text: String,
    /// Whether the shell replaces it with file names or a home folder.
    pub names_files: bool,
}

/// Returns the words of a plain command; None if the text is anything else. Words with globs and
/// tildes are marked.
pub fn plain(command: &str) -> Option<Vec<PlainWord>> {
    // These are rejected even between quotes, so that a mistake about quotes cannot let a second
    // command through.
    if command.chars().any(|c| ";&|<>`(){}".contains(c) || (c.is_control() && c != '\t')) {
        return None;
    }
    // In some locales, a byte of a non-ASCII character swallows the backslash after it.
    if !command.is_ascii() && command.contains('\\') {
        return None;
    }
    let mut reader = Reader { rest: command.chars().peekable(), before: None };
    let mut words = Vec::new();
    loop {
        while reader.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        if reader.rest.peek().is_none() {
            return Some(words);
        }
        words.push(reader.word()?);
    }
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    /// The previous character of the same word, if it is unquoted.
    before: Option<char>,
}

impl Reader<'_> {
    fn word(&mut self) -> Option<PlainWord> {
        let mut word = PlainWord { text: String::new(), names_files: false };
        self.before = None;
        while let Some(c) = self.rest.next_if(|c| !matches!(c, ' ' | '\t')) {
            match c {
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => {
                    word.text.push(self.rest.next()?);
                    self.before = None;
                }
                _ => {
                    word.names_files |= self.names_files(c)?;
                    word.text.push(c);
                    self.before = Some(c);
                }
            }
        }
        Some(word)
    }

    /// Returns whether an unquoted character makes its word a file name pattern. None if it may
    /// have another meaning.
    fn names_files(&self, c: char) -> Option<bool> {
        match c {
            '*' | '?' | '[' => Some(true),
            // After a letter it is an ordinary character, as in `HEAD~1`; elsewhere it may be a
            // home folder.
            '~' => Some(!self.before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '^')),
            '_' | '-' | '.' | '/' | ',' | ':' | '+' | '@' | '%' | '=' | '^' | ']' => Some(false),
            _ if c.is_ascii_alphanumeric() || (!c.is_ascii() && !c.is_whitespace()) => Some(false),
            _ => None,
        }
    }

    fn single_quoted(&mut self, word: &mut PlainWord) -> Option<()> {
        self.before = None;
        loop {
            match self.rest.next()? {
                '\'' => return Some(()),
                c => word.text.push(c),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut PlainWord) -> Option<()> {
        self.before = None;
        loop {
            match self.rest.next()? {
                '"' => return Some(()),
                // Both are special here; `!` only in a shell with history expansion.
                '$' | '!' => return None,
                '\\' => match self.rest.next()? {
                    escaped @ ('$' | '"' | '\\') => word.text.push(escaped),
                    '!' => return None,
                    other => word.text.extend(['\\', other]),
                },
                c => word.text.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &str) -> String {
        let Some(words) = plain(command) else { return "not plain".to_owned() };
        let shown = words.iter().map(|word| format!("{}{}", word.text, if word.names_files { "?" } else { "" }));
        shown.collect::<Vec<_>>().join("|")
    }

    #[test]
    fn words_are_taken_as_bash_takes_them() {
        let cases = [
            ("ls -la  src\tx", "ls|-la|src|x"),
            (r#"grep -n 'a $b' "c \"d\" \$e \n" f\ g"#, r#"grep|-n|a $b|c "d" $e \n|f g"#),
            ("git diff HEAD~1 HEAD^ HEAD^~2 a..b @", "git|diff|HEAD~1|HEAD^|HEAD^~2|a..b|@"),
            ("A=1 make x=y", "A=1|make|x=y"),
            ("ls *.rs ~/x a=~ [a]b '*' \\? '~' a?", "ls|*.rs?|~/x?|a=~?|[a]b?|*|?|~|a??"),
            ("echo é 'ü'", "echo|é|ü"),
            ("", ""),
        ];
        for (command, expected) in cases {
            assert_eq!(read(command), expected, "{command}");
        }
    }

    #[test]
    fn a_text_that_the_shell_could_change_is_not_plain() {
        let commands = [
            "echo $x",
            "echo \"$x\"",
            "echo $'a'",
            "echo $\"a\"",
            "echo a$",
            "echo !x",
            "echo \"a!b\"",
            "echo # x",
            "echo a;b",
            "echo 'a;b'",
            "echo `a`",
            "echo $(a)",
            "echo {a,b}",
            "echo >x",
            "echo a\nb",
            "echo a\rb",
            "echo \u{b}",
            "ls\u{a0}x",
            "echo 'a",
            "echo \"a",
            "echo a\\",
            "echo é\\ x",
        ];
        for command in commands {
            assert_eq!(read(command), "not plain", "{command}");
        }
    }
}
