//! Rules about shell commands.
//!
//! A rule that allows covers only text that is plainly one command. A rule that denies looks at every program that the
//! text would run, through quotes, substitutions, `sudo`, `sh -c` and similar wrappers. Where the text does not show
//! the program, the rule may apply, and the person decides.
//!
//! A script, a makefile or an interpreter hides what it runs, so these rules are a seat belt. The wall is the sandbox.

mod options;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use globset::GlobMatcher;

use super::Match;
use crate::glob::{BadGlob, Star, glob};
use crate::shell::{self, PlainWord, Programs, Word, base, evaluates_later, may_mention, own_arguments, plain, starts};

/// What makes a word of a rule a pattern.
const GLOB: [char; 3] = ['*', '?', '['];

/// A command that rules are compared with. It is read once for all of them, and only if one asks.
pub(super) struct ComparedCommand<'a> {
    text: &'a str,
    programs: OnceCell<Programs>,
    evaluates_later: OnceCell<bool>,
    bare: OnceCell<String>,
}

impl<'a> ComparedCommand<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, programs: OnceCell::new(), evaluates_later: OnceCell::new(), bare: OnceCell::new() }
    }

    /// The words that may be names of files, wherever they stand: arguments, values of options, files that are read or
    /// written. Quotes and backslashes do not hide one.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let bare = self.bare.get_or_init(|| self.text.replace(['\'', '"', '\\'], ""));
        let ends = |c: char| c.is_whitespace() || ";|&<>()=,:`{}@".contains(c);
        bare.split(ends).filter(|word| !word.is_empty())
    }

    fn programs(&self) -> &Programs {
        self.programs.get_or_init(|| shell::programs(self.text))
    }

    /// Whether something may run that the reader does not see.
    fn may_hide(&self) -> bool {
        self.programs().hides_some || *self.evaluates_later.get_or_init(|| evaluates_later(self.text))
    }
}

#[derive(Clone, Debug)]
pub(super) enum CommandPattern {
    /// The first words.
    Words(Vec<String>),
    /// All of it, with single spaces.
    Glob(GlobMatcher),
}

impl CommandPattern {
    pub(super) fn new(text: &str) -> Result<Self, BadGlob> {
        if text.contains(GLOB) {
            return Ok(Self::Glob(glob(&spaced(text), Star::Anything)?));
        }
        Ok(Self::Words(text.split_whitespace().map(str::to_owned).collect()))
    }

    /// Whether the rule covers the whole command, which must be plain and run nothing that the rule does not name. A
    /// builtin of the shell may run what it finds in the name of a file, so it must not get patterns of file names.
    pub(super) fn fits_all(&self, command: &ComparedCommand<'_>) -> bool {
        let text = command.text;
        let Some(given) = plain(text).filter(|_| text.len() <= shell::LONGEST) else { return false };
        let names_files = |word: &PlainWord| word.names_files;
        let Some(program) = given.first().filter(|program| !names_files(program)) else { return false };
        if shell::evaluates_arguments(&program.text) && given.iter().any(names_files) {
            return false;
        }
        let fits = match self {
            Self::Glob(glob) => glob.is_match(spaced(text)),
            Self::Words(words) => {
                let mut given = given.iter();
                words.iter().all(|word| given.next().is_some_and(|given| given.text == *word && !given.names_files))
            }
        };
        let programs = command.programs();
        // An assignment or a keyword such as `time` before the program is not what the rule speaks of.
        let is_first =
            programs.calls.first().is_some_and(|call| call.len() == given.len() && call[0].text == program.text);
        fits && is_first && self.names_all(programs) && self.knows_options(programs)
    }

    /// Whether each program that runs has only options that run nothing, or that the rule names.
    fn knows_options(&self, programs: &Programs) -> bool {
        programs.calls.iter().filter_map(|call| call.split_first()).all(|(program, arguments)| {
            let own = own_arguments(base(&program.text), arguments);
            let arguments: Vec<&str> = own.iter().map(|word| word.text.as_str()).collect();
            options::are_harmless(base(&program.text), &arguments, |word| self.has_word(word))
        })
    }

    /// Whether a word stands in the rule, as it is.
    fn has_word(&self, word: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.glob().glob().split(' ').any(|known| known == word && !known.contains(GLOB)),
            Self::Words(words) => words.iter().any(|known| known == word),
        }
    }

    /// Whether the rule also names every program that the first one runs, by the same path.
    fn names_all(&self, programs: &Programs) -> bool {
        let is_named = |name: &str| self.has_word(name);
        let run = programs.calls.iter().skip(1).filter_map(|call| call.first()).map(|program| program.text.as_str());
        // The reader may take an argument of a wrapper, such as the seconds of `timeout`, for the program.
        !programs.hides_some && run.filter(|name| !is_time(name)).all(is_named)
    }

    /// Whether the rule matches any program of the command.
    pub(super) fn fits_a_part(&self, command: &ComparedCommand<'_>) -> Match {
        if matches!(self, Self::Glob(glob) if glob.is_match(spaced(command.text))) {
            return Match::Yes;
        }
        let fit = command.programs().calls.iter().map(|words| self.fits_call(words)).max().unwrap_or(Match::No);
        let may_fit = fit != Match::Yes && (command.may_hide() || self.is_mentioned(command.text));
        if may_fit { Match::Maybe } else { fit }
    }

    /// Whether the text names what the rule speaks of, where that is not surely without effect. The reader may be wrong about
    /// what it has read; this does not rely on it.
    fn is_mentioned(&self, text: &str) -> bool {
        match self {
            Self::Words(words) => {
                words.split_first().is_some_and(|(program, others)| may_mention(text, program, others))
            }
            Self::Glob(glob) => {
                let program = glob.glob().glob().split(' ').next().unwrap_or_default();
                !program.contains(GLOB) && may_mention(text, program, &[])
            }
        }
    }

    fn fits_call(&self, words: &[Word]) -> Match {
        let Some((program, arguments)) = words.split_first() else { return Match::No };
        if program.expands {
            return Match::Maybe;
        }
        match self {
            Self::Glob(glob) => {
                let text = |program: &str| {
                    let words = arguments.iter().map(|word| word.text.as_str());
                    std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
                };
                let fits = glob.is_match(text(&program.text)) || glob.is_match(text(base(&program.text)));
                if fits { Match::Yes } else { Match::No }
            }
            Self::Words(wanted) => {
                let Some((name, wanted)) = wanted.split_first() else { return Match::No };
                if *name != program.text && *name != base(&program.text) {
                    return Match::No;
                }
                // Options may come before a subcommand: `git -C folder push` is `git push`.
                let later = starts(arguments, 0).into_iter().map(|start| &arguments[start..]);
                std::iter::once(arguments)
                    .chain(later)
                    .map(|given| fits_words(wanted, given))
                    .max()
                    .unwrap_or(Match::No)
            }
        }
    }
}

/// A rule about commands, for tests elsewhere.
#[cfg(test)]
pub(crate) struct CommandRule(CommandPattern);

#[cfg(test)]
impl CommandRule {
    pub(crate) fn of(rule: &str) -> Self {
        Self(CommandPattern::new(rule).unwrap())
    }

    pub(crate) fn allows(&self, command: &str) -> bool {
        self.0.fits_all(&ComparedCommand::new(command))
    }

    pub(crate) fn may_deny(&self, command: &str) -> bool {
        self.0.fits_a_part(&ComparedCommand::new(command)) != Match::No
    }
}

/// Whether the arguments begin with the wanted words. An argument that the shell expands may become any of them, or
/// several.
fn fits_words(wanted: &[String], given: &[Word]) -> Match {
    for (index, wanted) in wanted.iter().enumerate() {
        match given.get(index) {
            None => return Match::No,
            Some(word) if word.expands => return Match::Maybe,
            Some(word) if word.text != *wanted => return Match::No,
            Some(_) => {}
        }
    }
    Match::Yes
}

/// A length of time as `timeout` takes it.
fn is_time(word: &str) -> bool {
    let number = word.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(word);
    number.starts_with(|c: char| c.is_ascii_digit()) && number.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
