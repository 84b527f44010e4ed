//! Rules about shell commands. Shell text is read without being understood, so an allowing rule covers only commands
//! that are plainly one command, and a denying rule looks at every part that could be one. What a command hides from
//! this (a script, a variable, an alias) it hides; the sandbox is what keeps it in.

use globset::GlobMatcher;

use crate::bash::is_one_command;

#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// The first words.
    Words(Vec<String>),
    /// All of it, with single spaces.
    Glob(GlobMatcher),
}

/// Where another command may begin.
const SEPARATORS: [char; 11] = [';', '&', '|', '\n', '\r', '(', ')', '{', '}', '`', '!'];

/// Words before the program itself.
const PREFIXES: [&str; 14] =
    ["sudo", "doas", "env", "command", "builtin", "exec", "time", "nohup", "nice", "then", "do", "else", "if", "while"];

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, globset::Error> {
        if text.contains(['*', '?', '[']) {
            return Ok(Self::Glob(super::glob(&spaced(text), false)?));
        }
        Ok(Self::Words(text.split_whitespace().map(str::to_owned).collect()))
    }

    /// Whether the rule speaks of the whole command.
    pub(super) fn fits_all(&self, command: &str) -> bool {
        is_one_command(command) && self.fits(&spaced(command))
    }

    /// Whether the rule speaks of any part of it.
    pub(super) fn fits_a_part(&self, command: &str) -> bool {
        self.fits(&spaced(command)) || command.split(SEPARATORS).any(|part| self.fits_somewhere(part))
    }

    fn fits_somewhere(&self, part: &str) -> bool {
        let mut words: Vec<&str> = part.split_whitespace().collect();
        while words.first().is_some_and(|word| is_before_program(word)) {
            words.remove(0);
        }
        let Some(program) = words.first_mut() else { return false };
        *program = program.rsplit('/').next().unwrap_or(program).trim_matches(['"', '\'', '\\', '$']);
        self.fits(&words.join(" "))
    }

    fn fits(&self, spaced: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.is_match(spaced),
            Self::Words(words) => {
                let mut given = spaced.split(' ');
                words.iter().all(|word| given.next() == Some(word))
            }
        }
    }
}

/// `sudo`, `if` and their like, their options, and assignments.
fn is_before_program(word: &str) -> bool {
    PREFIXES.contains(&word) || word.starts_with('-') || word.contains('=')
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
