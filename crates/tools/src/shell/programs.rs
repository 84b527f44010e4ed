//! Which programs a command would run, as far as its text tells: those that stand there, and those that others run for
//! them (`sudo`, `timeout`, `xargs`, `sh -c`, `find -exec` and their like).

use super::{Script, Simple, Word, read};

/// How often one program may run another before nobody follows any more.
const DEEPEST: usize = 12;

/// More programs than this in one command nobody looks at.
const MOST: usize = 2000;

#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// Each with its arguments; the program comes first. Where it is not certain which word is the program, each that may
    /// be is here.
    pub(crate) calls: Vec<Vec<Word>>,
    /// Something is run that the text does not show.
    pub(crate) hides_some: bool,
}

/// Programs that run what their arguments say, and how many arguments come before that, options aside.
const WRAPPERS: [(&str, usize); 36] = [
    ("sudo", 0),
    ("doas", 0),
    ("pkexec", 0),
    ("runuser", 0),
    ("setpriv", 0),
    ("env", 0),
    ("command", 0),
    ("builtin", 0),
    ("exec", 0),
    ("nohup", 0),
    ("nice", 0),
    ("ionice", 0),
    ("chrt", 1),
    ("taskset", 1),
    ("time", 0),
    ("timeout", 1),
    ("setsid", 0),
    ("stdbuf", 0),
    ("unbuffer", 0),
    ("strace", 0),
    ("ltrace", 0),
    ("gdb", 0),
    ("valgrind", 0),
    ("chroot", 1),
    ("unshare", 0),
    ("nsenter", 0),
    ("bwrap", 0),
    ("firejail", 0),
    ("flock", 1),
    ("systemd-run", 0),
    ("systemd-inhibit", 0),
    ("busybox", 0),
    ("toybox", 0),
    ("xargs", 0),
    ("parallel", 0),
    ("watch", 0),
];

/// Those that read an argument as shell text after `-c`.
const SHELLS: [&str; 13] =
    ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "su", "script", "runuser"];

/// Those that put all their arguments together and give them to a shell. The first of `ssh` is the host.
const SPEAKERS: [(&str, usize); 4] = [("eval", 0), ("watch", 0), ("parallel", 0), ("ssh", 1)];

/// Those that add arguments nobody sees here.
const FEEDERS: [&str; 2] = ["xargs", "parallel"];

const FIND_RUNS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

pub(crate) fn programs(command: &str) -> Programs {
    let mut found = Programs::default();
    found.add_script(read(command), 0);
    found
}

/// A program's name without its folder.
pub(crate) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

impl Programs {
    fn add_script(&mut self, script: Script, depth: usize) {
        self.hides_some |= script.is_torn;
        for Simple { words, is_fed } in script.commands {
            self.add(&words, is_fed, depth);
        }
    }

    fn add(&mut self, words: &[Word], is_fed: bool, depth: usize) {
        // The reader takes `time` for a keyword, which leaves its option in front of the program.
        let is_before = |word: &Word| word.is_assignment || (word.text.starts_with('-') && !word.expands);
        let start = words.iter().position(|word| !is_before(word)).unwrap_or(words.len());
        let Some((program, arguments)) = words[start..].split_first() else { return };
        if depth > DEEPEST || self.calls.len() >= MOST {
            self.hides_some = true;
            return;
        }
        self.calls.push(words[start..].to_vec());
        self.hides_some |= program.expands;
        let name = base(&program.text);
        if let Some((_, before)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) {
            self.add_wrapped(name, arguments, *before, is_fed, depth);
        }
        if let Some((_, before)) = SPEAKERS.iter().find(|(speaker, _)| *speaker == name) {
            for start in starts(arguments, *before) {
                self.add_text(&arguments[start..], depth);
            }
        }
        if SHELLS.contains(&name) {
            self.add_shell(arguments, is_fed, depth);
        }
        match name {
            "find" => self.add_found(arguments, depth),
            "trap" => self.add_text(arguments.get(..1).unwrap_or_default(), depth),
            // What a name will mean later, and what a script made on the way says.
            "alias" if !arguments.is_empty() => self.hides_some = true,
            "." | "source" => self.hides_some |= arguments.iter().any(|word| word.expands),
            _ => {}
        }
    }

    fn add_wrapped(&mut self, name: &str, arguments: &[Word], before: usize, is_fed: bool, depth: usize) {
        if name == "env" {
            self.add_split(arguments, depth);
        }
        for start in starts(arguments, before) {
            let mut words = arguments[start..].to_vec();
            if FEEDERS.contains(&name) {
                // A place holder is filled in with something, too.
                words.iter_mut().for_each(|word| word.expands |= word.text.contains("{}"));
                words.push(Word::unknown());
            }
            self.add(&words, is_fed, depth + 1);
        }
    }

    /// `env -S "program arguments"`.
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
        let is_option = |word: &Word| word.text.starts_with(['-', '+']);
        let flag = arguments.iter().position(|word| is_cluster_with(&word.text, 'c') || word.text == "--command");
        match flag {
            Some(flag) => {
                // A shell takes the first word after its options, and `su` the one after the flag: both are looked at.
                for word in &arguments[flag + 1..] {
                    self.add_text(std::slice::from_ref(word), depth);
                    if !is_option(word) {
                        break;
                    }
                }
            }
            // Without a script to run it takes commands from its input.
            None => {
                let joined = arguments.iter().find_map(|word| word.text.strip_prefix("--command="));
                match joined {
                    Some(text) => self.add_script(read(text), depth + 1),
                    None => self.hides_some |= is_fed && arguments.iter().all(is_option),
                }
            }
        }
    }

    fn add_found(&mut self, arguments: &[Word], depth: usize) {
        for (index, word) in arguments.iter().enumerate() {
            if FIND_RUNS.contains(&word.text.as_str()) {
                let rest = &arguments[index + 1..];
                let end = rest.iter().position(|word| matches!(word.text.as_str(), ";" | "+")).unwrap_or(rest.len());
                let mut words = rest[..end].to_vec();
                words.iter_mut().for_each(|word| word.expands |= word.text.contains("{}"));
                self.add(&words, false, depth + 1);
            }
        }
    }

    /// Words that become shell text once they stand side by side.
    fn add_text(&mut self, words: &[Word], depth: usize) {
        self.hides_some |= words.iter().any(|word| word.expands);
        if depth > DEEPEST || self.calls.len() >= MOST {
            self.hides_some = true;
            return;
        }
        let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        self.add_script(read(&text.join(" ")), depth + 1);
    }
}

/// Where in its arguments the program that a wrapper runs may stand, when so many arguments come before it. The word after
/// an option may be its value, or what the option stands before.
pub(crate) fn starts(arguments: &[Word], before: usize) -> Vec<usize> {
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

/// Several one-letter options in one word, such as `-lc`.
fn is_cluster_with(word: &str, letter: char) -> bool {
    word.strip_prefix('-').is_some_and(|letters| !letters.starts_with('-') && letters.contains(letter))
}
