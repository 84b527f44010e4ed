//! Decides whether a `sed` script may run a command: GNU sed has a command `e`, and a flag `e` of
//! `s`.

/// Returns whether a script may run a command. One that cannot be parsed may.
pub(super) fn may_run(script: &str) -> bool {
    let mut reader = Reader { rest: script.chars().peekable() };
    while reader.rest.peek().is_some() {
        match reader.command() {
            Some(false) => {}
            Some(true) | None => return true,
        }
    }
    false
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
}

impl Reader<'_> {
    /// Parses one command and returns whether it runs something; None if it cannot be parsed.
    fn command(&mut self) -> Option<bool> {
        self.address()?;
        let Some(command) = self.rest.next() else { return Some(false) };
        match command {
            'e' => return Some(true),
            's' => {
                let end = self.rest.next()?;
                self.section(end)?;
                self.section(end)?;
                while let Some(flag) = self.rest.next_if(|c| !matches!(c, ';' | '\n' | '}')) {
                    match flag {
                        'e' => return Some(true),
                        'w' => self.line(),
                        _ => {}
                    }
                }
            }
            'y' => {
                let end = self.rest.next()?;
                self.section(end)?;
                self.section(end)?;
            }
            // The rest of the line is text, a file name or a comment.
            'a' | 'i' | 'c' | 'r' | 'R' | 'w' | 'W' | '#' => self.line(),
            // A label ends at a space, and a command may follow it.
            'b' | 't' | 'T' | ':' => {
                while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                while self.rest.next_if(|c| !matches!(c, ';' | '}') && !c.is_whitespace()).is_some() {}
            }
            'q' | 'Q' | 'l' | 'L' => while self.rest.next_if(|c| c.is_ascii_digit() || *c == ' ').is_some() {},
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' | '=' | '{' | '}' | ';'
            | '\n' => {}
            _ => return None,
        }
        Some(false)
    }

    fn address(&mut self) -> Option<()> {
        while let Some(c) = self
            .rest
            .next_if(|c| c.is_ascii_digit() || matches!(c, ' ' | '\t' | '$' | ',' | '~' | '+' | '!' | '/' | '\\'))
        {
            match c {
                '/' => self.pattern('/')?,
                '\\' => {
                    let end = self.rest.next()?;
                    self.pattern(end)?;
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Parses a pattern up to `end`.
    fn pattern(&mut self, end: char) -> Option<()> {
        self.section(end)?;
        while self.rest.next_if(|c| matches!(c, 'I' | 'M')).is_some() {}
        Some(())
    }

    fn section(&mut self, end: char) -> Option<()> {
        loop {
            match self.rest.next()? {
                '\\' => {
                    self.rest.next()?;
                }
                c if c == end => return Some(()),
                _ => {}
            }
        }
    }

    fn line(&mut self) {
        while let Some(c) = self.rest.next_if(|c| *c != '\n') {
            // An escaped line break continues the line.
            if c == '\\' {
                self.rest.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_a_command_is_found() {
        for script in [
            "s/a/b/g",
            "s|e|e|gp",
            "/here/d",
            "1,5p",
            "$!N;P;D",
            "/a/,/e/{s/x/y/;p}",
            "10q",
            "a\\\n here",
            "y/abe/xyz/",
            ":a;N;$!ba;s/x/y/",
        ] {
            assert!(!may_run(script), "{script}");
        }
        for script in [
            "1e rm x",
            "e",
            "s/.*/rm x/e",
            "s/a/b/ge;p",
            "/x/e rm",
            "p;e rm",
            "%",
            "s/a",
            "s/a[/]b/rm/e",
            ":a e rm x",
            "bz e rm x",
            "tz e rm x\n:z",
        ] {
            assert!(may_run(script), "{script}");
        }
    }
}
