//! Rules about shell commands.
//!
//! A rule that allows covers only text that is plainly one command. A rule that denies is matched
//! against every program that the text would run, through quotes, substitutions, `sudo`, `sh -c`
//! and similar wrappers. Where the text does not show the program, the rule may apply, and the user
//! decides.
//!
//! A script, a makefile or an interpreter hides what it runs, so these rules only prevent
//! accidents. The security boundary is the sandbox.

mod options;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use globset::GlobMatcher;

use super::Match;
use crate::glob::{BadGlob, StarMatches, glob};
use crate::shell::{self, PlainWord, Programs, Word, base, evaluates_later, may_mention, own_arguments, plain, starts};

/// Characters that make a rule's text a glob.
const GLOB: [char; 3] = ['*', '?', '['];

/// A command to match rules against. It is parsed once for all rules, and only when one needs it.
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

    /// Returns the words that may be file names, wherever they are: arguments, values of options,
    /// files that are read or written. Quotes and backslashes are removed first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let bare = self.bare.get_or_init(|| self.text.replace(['\'', '"', '\\'], ""));
        let ends = |c: char| c.is_whitespace() || ";|&<>()=,:`{}@".contains(c);
        bare.split(ends).filter(|word| !word.is_empty())
    }

    fn programs(&self) -> &Programs {
        self.programs.get_or_init(|| shell::programs(self.text))
    }

    /// Returns whether something may run that the parser does not see.
    fn may_hide(&self) -> bool {
        self.programs().hides_some || *self.evaluates_later.get_or_init(|| evaluates_later(self.text))
    }
}

#[derive(Clone, Debug)]
pub(super) enum CommandPattern {
    /// The first words of the command.
    Words(Vec<String>),
    /// A glob of the whole command, with single spaces between words.
    Glob(GlobMatcher),
}

impl CommandPattern {
    pub(super) fn new(text: &str) -> Result<Self, BadGlob> {
        if text.contains(GLOB) {
            return Ok(Self::Glob(glob(&spaced(text), StarMatches::Anything)?));
        }
        Ok(Self::Words(text.split_whitespace().map(str::to_owned).collect()))
    }

    /// Returns whether the rule covers the whole command. The command must be plain and run nothing
    /// that the rule does not name. A shell builtin may evaluate the name of a file, so its
    /// arguments must not contain file name patterns.
    pub(super) fn fits_all(&self, command: &ComparedCommand<'_>) -> bool {
        let text = command.text;
        let Some(given) = plain(text).filter(|_| text.len() <= shell::MAX_COMMAND_BYTES) else { return false };
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
        // The rule does not cover an assignment or a keyword such as `time` before the program.
        let is_first =
            programs.calls.first().is_some_and(|call| call.len() == given.len() && call[0].text == program.text);
        fits && is_first && self.names_all(programs) && self.knows_options(programs)
    }

    /// Returns whether each program has only options that run nothing or that the rule names.
    fn knows_options(&self, programs: &Programs) -> bool {
        programs.calls.iter().filter_map(|call| call.split_first()).all(|(program, arguments)| {
            let own = own_arguments(base(&program.text), arguments);
            let arguments: Vec<&str> = own.iter().map(|word| word.text.as_str()).collect();
            options::are_harmless(base(&program.text), &arguments, |word| self.has_word(word))
        })
    }

    /// Returns whether a word appears literally in the rule.
    fn has_word(&self, word: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.glob().glob().split(' ').any(|known| known == word && !known.contains(GLOB)),
            Self::Words(words) => words.iter().any(|known| known == word),
        }
    }

    /// Returns whether the rule also names every program that the first one runs, by the same path.
    fn names_all(&self, programs: &Programs) -> bool {
        let is_named = |name: &str| self.has_word(name);
        let run = programs.calls.iter().skip(1).filter_map(|call| call.first()).map(|program| program.text.as_str());
        // The parser may mistake an argument of a wrapper, such as the seconds of `timeout`, for
        // the program.
        !programs.hides_some && run.filter(|name| !is_time(name)).all(is_named)
    }

    /// Returns whether the rule matches any program of the command.
    pub(super) fn fits_a_part(&self, command: &ComparedCommand<'_>) -> Match {
        if matches!(self, Self::Glob(glob) if glob.is_match(spaced(command.text))) {
            return Match::Yes;
        }
        let fit = command.programs().calls.iter().map(|words| self.fits_call(words)).max().unwrap_or(Match::No);
        let may_fit = fit != Match::Yes && (command.may_hide() || self.is_mentioned(command.text));
        if may_fit { Match::Maybe } else { fit }
    }

    /// Returns whether the text mentions what the rule names, unless the mention certainly has no
    /// effect. Does not rely on the parser, which may be wrong.
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

/// A rule about commands, for tests in other modules.
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

/// Returns whether the arguments begin with the wanted words. An argument that the shell expands
/// may become any of them, or several.
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

/// Returns whether a word is a duration in the format of `timeout`.
fn is_time(word: &str) -> bool {
    let number = word.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(word);
    number.starts_with(|c: char| c.is_ascii_digit()) && number.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
