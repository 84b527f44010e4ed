//! Finds the programs that a command would run, as far as its text shows: those that it names, and
//! those that wrappers run (`sudo`, `timeout`, `xargs`, `sh -c`, `find -exec` and similar).
//! `hides_some` is set where a program runs something in a way that this module does not
//! understand.

mod git;
mod hiding;
mod sed;
mod tables;

use super::{MAX_COMMAND_BYTES, ShellScript, SimpleCommand, Word, has_substitution, read, read_quoted};
use tables::{
    APPENDING_PROGRAMS, COMMAND_OPTIONS, EVALUATORS, RUN_OPTIONS, SHELL_TEXT_PROGRAMS, SHELLS, STARTS_SHELL, UNCERTAIN,
    WRAPPERS, WRAPPING_SUBCOMMANDS,
};

/// The deepest nesting of wrappers that is followed.
const MAX_WRAPPER_DEPTH: usize = 12;

/// The most programs of one command that are examined.
const MAX_PROGRAMS: usize = 2000;

/// The most bytes that are examined for one command. The same words may be examined many times.
const MAX_EXAMINED_BYTES: usize = 512 << 10;

#[derive(Debug, Default)]
pub struct Programs {
    /// Each program with its arguments, the program first. If several words may be the program,
    /// there is one entry for each.
    pub calls: Vec<Vec<Word>>,
    /// Whether something runs that the text does not show.
    pub hides_some: bool,
    /// The number of bytes examined so far.
    weight: usize,
}

/// Finds the programs that a command would run.
pub fn programs(command: &str) -> Programs {
    if command.len() > MAX_COMMAND_BYTES {
        return Programs { hides_some: true, ..Programs::default() };
    }
    let mut found = Programs::default();
    found.add_script(read(command), 0);
    found
}

/// Returns whether a shell builtin may run a command that it finds in its arguments.
pub(crate) fn evaluates_arguments(builtin: &str) -> bool {
    builtin == "eval" || EVALUATORS.contains(&builtin)
}

/// Returns a program's name without its folder.
pub fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

impl Programs {
    fn add_script(&mut self, script: ShellScript, depth: usize) {
        self.hides_some |= script.is_incomplete;
        for SimpleCommand { words, is_fed, is_arithmetic } in script.commands {
            if is_arithmetic {
                self.add_evaluated(&words, depth);
            }
            self.add(&words, is_fed, depth);
        }
    }

    /// Returns whether a limit is reached. If so, something may be hidden.
    fn is_full(&mut self, depth: usize) -> bool {
        let is_full =
            depth > MAX_WRAPPER_DEPTH || self.calls.len() >= MAX_PROGRAMS || self.weight >= MAX_EXAMINED_BYTES;
        self.hides_some |= is_full;
        is_full
    }

    fn add(&mut self, words: &[Word], is_fed: bool, depth: usize) {
        self.weight += words.iter().map(|word| size_of::<Word>() + word.text.len()).sum::<usize>();
        // The parser treats `time` as a keyword, which leaves its option before the program.
        let is_before = |word: &Word| word.is_assignment || (word.text.starts_with('-') && !word.expands);
        let start = words.iter().position(|word| !is_before(word)).unwrap_or(words.len());
        for assignment in words[..start].iter().filter(|word| word.is_assignment) {
            self.add_variable(assignment, depth);
        }
        let Some((program, arguments)) = words[start..].split_first() else { return };
        if self.is_full(depth) {
            return;
        }
        self.calls.push(words[start..].to_vec());
        self.hides_some |= program.expands;
        let name = base(&program.text);
        let is_loader = name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so";
        if let Some(before) = number(WRAPPERS, name).or(is_loader.then_some(0)) {
            self.add_wrapped(name, arguments, before, is_fed, depth);
        }
        if let Some(before) = number(SHELL_TEXT_PROGRAMS, name) {
            let starts = starts(arguments, before);
            // Without a program these read commands from their input.
            self.hides_some |= starts.len() <= before && (is_fed || name == "parallel");
            for start in starts {
                self.add_text(&arguments[start..], depth);
            }
        }
        if SHELLS.contains(&name) {
            self.add_shell(arguments, is_fed, depth);
        }
        self.add_options(name, arguments, depth);
        match name {
            "trap" => arguments.iter().for_each(|word| self.add_text(std::slice::from_ref(word), depth)),
            "git" => self.add_git(arguments, depth),
            "env" | "export" | "declare" | "typeset" | "local" | "readonly" => {
                arguments.iter().for_each(|word| self.add_variable(word, depth));
            }
            _ => {}
        }
        self.hides_some |= sets_unknown(name, arguments);
        if EVALUATORS.contains(&name) {
            self.add_evaluated(arguments, depth);
        }
        self.hides_some |= hiding::hides(name, arguments, is_fed);
    }

    /// Adds the commands in words that the shell expands again as names of variables or as
    /// arithmetic.
    fn add_evaluated(&mut self, words: &[Word], depth: usize) {
        for word in words.iter().filter(|word| has_substitution(&word.text)) {
            self.add_script(read_quoted(&word.text, depth), depth + 1);
        }
    }

    /// Adds the commands in the values of options.
    fn add_options(&mut self, name: &str, arguments: &[Word], depth: usize) {
        for (program, letters, long) in COMMAND_OPTIONS {
            if *program == name {
                for value in options_with(arguments, letters, long) {
                    self.add_text(std::slice::from_ref(&value), depth);
                }
            }
        }
        for (program, options) in RUN_OPTIONS {
            if *program == name {
                self.add_found(arguments, options, depth);
            }
        }
        for (program, subcommands) in WRAPPING_SUBCOMMANDS {
            if *program == name
                && let Some(at) = arguments.iter().position(|word| subcommands.contains(&word.text.as_str()))
            {
                self.add_wrapped(name, &arguments[at + 1..], 0, false, depth);
            }
        }
    }

    fn add_wrapped(&mut self, name: &str, arguments: &[Word], before: usize, is_fed: bool, depth: usize) {
        if name == "env" {
            self.add_split(arguments, depth);
        }
        let starts = starts(arguments, before);
        self.hides_some |= starts.len() <= before && STARTS_SHELL.contains(&name);
        self.hides_some |= UNCERTAIN.contains(&name);
        for start in starts {
            if self.is_full(depth) {
                return;
            }
            let mut words = arguments[start..].to_vec();
            if APPENDING_PROGRAMS.contains(&name) {
                // A placeholder is replaced with unknown text too.
                words.iter_mut().for_each(|word| word.expands |= word.text.contains("{}"));
                words.push(Word::unknown());
            }
            self.add(&words, is_fed, depth + 1);
        }
    }

    /// Adds the command of `env -S "program arguments"`.
    fn add_split(&mut self, arguments: &[Word], depth: usize) {
        for (index, word) in arguments.iter().enumerate() {
            if let Some(rest) = word.text.strip_prefix("--split-string=") {
                self.add_script(read(rest), depth + 1);
            } else if word.text == "--split-string" || is_cluster_with(&word.text, 'S') {
                let joined = word.text.split_once('S').map_or("", |(_, rest)| rest);
                self.add_script(read(joined), depth + 1);
                self.add_text(arguments.get(index + 1..index + 2).unwrap_or_default(), depth);
            }
        }
    }

    fn add_shell(&mut self, arguments: &[Word], is_fed: bool, depth: usize) {
        let is_option = |word: &Word| word.text.starts_with(['-', '+']) && word.text.len() > 1;
        let flag = arguments.iter().position(|word| is_cluster_with(&word.text, 'c') || word.text == "--command");
        if let Some(flag) = flag {
            // A shell runs the first word after its options, some of which take a value; `su` runs
            // the one after the flag.
            let mut may_be_value = false;
            for word in &arguments[flag + 1..] {
                self.add_text(std::slice::from_ref(word), depth);
                if !is_option(word) && !may_be_value {
                    break;
                }
                may_be_value = is_option(word) && word.text.ends_with(['o', 'O']);
            }
            return;
        }
        if let Some(text) = arguments.iter().find_map(|word| word.text.strip_prefix("--command=")) {
            return self.add_script(read(text), depth + 1);
        }
        // Without a script it reads commands from its input, and the path of a script may be an
        // alias of its input.
        let script = arguments.iter().find(|word| !is_option(word));
        let reads_stdin = arguments.iter().any(|word| is_cluster_with(&word.text, 's'));
        self.hides_some |=
            is_fed || reads_stdin || script.is_none_or(|script| script.expands || hiding::is_input(&script.text));
    }

    fn add_found(&mut self, arguments: &[Word], options: &[&str], depth: usize) {
        for (index, word) in arguments.iter().enumerate() {
            if options.contains(&word.text.as_str()) {
                if self.is_full(depth) {
                    return;
                }
                let rest = &arguments[index + 1..];
                let end = rest.iter().position(|word| matches!(word.text.as_str(), ";" | "+")).unwrap_or(rest.len());
                let mut words = rest[..end].to_vec();
                words.iter_mut().for_each(|word| word.expands |= word.text.contains("{}"));
                self.add(&words, false, depth + 1);
            }
        }
    }

    /// Adds the commands in words that are joined to shell text.
    fn add_text(&mut self, words: &[Word], depth: usize) {
        self.hides_some |= words.iter().any(|word| word.expands);
        if self.is_full(depth) {
            return;
        }
        let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        self.weight += text.len();
        self.add_script(read(&text), depth + 1);
    }
}

/// Returns the positions in a wrapper's arguments at which its program may be, if `before` operands
/// come first. The word after an option may be the option's value or an operand.
pub fn starts(arguments: &[Word], before: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut certain = 0;
    let mut after_option = false;
    for (index, word) in arguments.iter().enumerate() {
        if word.text == "--" {
            after_option = false;
        } else if word.text.starts_with('-') || word.text.starts_with('+') {
            after_option = !word.text.contains('=');
        } else if word.is_assignment {
            after_option = false;
        } else {
            found.push(index);
            certain += usize::from(!after_option);
            after_option = false;
            if certain > before {
                break;
            }
        }
    }
    found
}

/// Returns the arguments of a program itself, without those of the program or script that it runs.
pub(crate) fn own_arguments<'a>(name: &str, arguments: &'a [Word]) -> &'a [Word] {
    let before = match name {
        "sh" | "bash" | "rbash" | "dash" | "ash" | "zsh" | "ksh" => Some(0),
        _ => number(WRAPPERS, name),
    };
    let Some(before) = before else { return arguments };
    let starts = starts(arguments, before);
    let end = starts.last().filter(|_| starts.len() > before).copied().unwrap_or(arguments.len());
    &arguments[..end]
}

/// Returns whether a builtin sets a variable whose name only the shell knows. Bash may evaluate
/// that variable.
fn sets_unknown(name: &str, arguments: &[Word]) -> bool {
    let mut names = arguments.iter().filter(|word| !word.is_assignment);
    match name {
        "declare" | "typeset" | "local" | "export" | "readonly" | "read" | "mapfile" | "readarray" | "getopts" => {
            names.any(|word| word.expands)
        }
        "printf" => {
            arguments.first().is_some_and(|word| word.text.starts_with("-v")) && names.take(2).any(|word| word.expands)
        }
        _ => false,
    }
}

/// Returns whether a word is a cluster of one-letter options, such as `-lc`, with this letter in
/// it.
fn is_cluster_with(word: &str, letter: char) -> bool {
    word.strip_prefix('-').is_some_and(|letters| !letters.starts_with('-') && letters.contains(letter))
}

fn number(table: &[(&str, usize)], name: &str) -> Option<usize> {
    table.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// Returns the values of options with one of these letters or one of these long names, which may be
/// abbreviated.
fn options_with(arguments: &[Word], letters: &str, long: &[&str]) -> Vec<Word> {
    let mut values = Vec::new();
    for (index, word) in arguments.iter().enumerate() {
        let (name, joined) =
            word.text.split_once('=').map_or((word.text.as_str(), None), |(name, value)| (name, Some(value)));
        let is_long = name.len() > 3 && name.starts_with("--") && long.iter().any(|long| long.starts_with(name));
        let letter = letters.chars().find(|letter| is_cluster_with(&word.text, *letter));
        let attached = letter.and_then(|letter| word.text.split_once(letter)).map(|(_, rest)| rest);
        let text = if is_long { joined } else { attached.filter(|text| !text.is_empty()) };
        values.extend(text.map(|text| Word { text: text.to_owned(), ..word.clone() }));
        if (is_long && joined.is_none()) || letter.is_some() || long.contains(&word.text.as_str()) {
            values.extend(arguments.get(index + 1).cloned());
        }
    }
    values
}
