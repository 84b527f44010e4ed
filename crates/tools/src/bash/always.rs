//! What an "always" answer would cover for a command.
//!
//! Commands of a known shape are covered by their first words: nothing that may follow those makes them run another
//! program or write where the person would not expect it. Every other command is covered as it is written, to the letter,
//! and one that is several commands is not covered at all.

use domain::Grant;

use crate::shell::{self, Word, is_one_command};

mod shapes;

use shapes::{Options, SHAPES, Shape};

/// Beyond this nobody would recognise the command in the name of an option.
const LONGEST: usize = 200;

pub(super) fn of(command: &str) -> Option<Grant> {
    let command = command.trim();
    if !is_one_command(command) {
        return None;
    }
    let script = shell::read(command);
    let [only] = script.commands.as_slice() else { return None };
    let shape = SHAPES.iter().find(|shape| shape.fits(&only.words));
    match shape {
        Some(shape) if !script.is_torn => Some(Grant::Command(shape.words().map(str::to_owned).collect())),
        Some(_) | None => (command.chars().count() <= LONGEST).then(|| Grant::Exactly(command.to_owned())),
    }
}

impl Shape {
    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.start.split(' ')
    }

    fn fits(&self, words: &[Word]) -> bool {
        let start = self.words().count();
        words.len() >= start
            && self.words().zip(words).all(|(wanted, word)| !word.expands && word.text == wanted)
            && self.options.allow(&words[start..])
    }
}

impl Options {
    fn allow(&self, arguments: &[Word]) -> bool {
        let Self::Only(known) = self else { return true };
        let mut follows_option = false;
        for word in arguments {
            // What expands may become an option.
            if word.expands {
                return false;
            }
            if word.text == "--" {
                // After an option it may be that option's value, and what follows be options still.
                return is_listed("--", known) && !follows_option;
            }
            let number = |option: &str| option.bytes().all(|byte| byte.is_ascii_digit());
            follows_option = word.text.strip_prefix('-').is_some_and(|option| !option.contains('=') && !number(option));
            if word.text.starts_with('-') && word.text.len() > 1 && !is_known(&word.text, known) {
                return false;
            }
        }
        true
    }
}

fn is_known(option: &str, known: &str) -> bool {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    let one_letter = |letter: char| is_listed(&format!("-{letter}"), known);
    let cluster = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    is_listed(name, known)
        || cluster.is_some_and(|letters| letters.chars().all(|c| c.is_ascii_digit() || one_letter(c)))
}

fn is_listed(option: &str, known: &str) -> bool {
    known.split_ascii_whitespace().any(|known| known == option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(command: &str) -> String {
        of(command).map_or("nothing".to_owned(), |grant| grant.label())
    }

    #[test]
    fn a_known_shape_is_covered_by_its_first_words() {
        let cases = [
            ("ls -la src", "`ls` commands"),
            ("  cat   x  ", "`cat` commands"),
            ("git status", "`git status` commands"),
            ("git log --oneline -20 -- '*.rs'", "`git log` commands"),
            ("git diff HEAD~1 --stat", "`git diff` commands"),
            ("cargo test -p tools name -- --nocapture", "`cargo test` commands"),
            ("cargo build --release", "`cargo build` commands"),
            ("find . -name x -type f", "`find` commands"),
            ("rg -n -i 'pattern' src", "`rg` commands"),
            ("grep -rn \"a b\" src", "`grep` commands"),
            ("sort -rn x", "`sort` commands"),
        ];
        for (command, expected) in cases {
            assert_eq!(label(command), expected, "{command}");
        }
    }

    /// Each of these begins like a command that is covered by its first words, or runs whatever it is told to.
    #[test]
    fn what_could_run_another_program_or_write_elsewhere_is_covered_to_the_letter() {
        let commands = [
            "git push --force origin main",
            "rg -e -- --pre=./x.sh f",
            "git log -L -- --output=/home/me/.bashrc",
            "git blame -L -- --output=/home/me/.bashrc",
            "git -c core.pager=x log",
            "git log --output=/home/me/.bashrc",
            "git diff --ext-diff",
            "git diff --no-index --output x a b",
            "git grep -Osh x",
            "git show $X",
            "git branch -D main",
            "git fetch --upload-pack=x",
            "cargo build --config build.rustc-wrapper=x",
            "cargo test --manifest-path /tmp/x/Cargo.toml",
            "cargo +evil test",
            "cargo run",
            "cargo clippy -- -C linker=x",
            "find . -exec rm x",
            "find . -delete",
            "find . -fprint x",
            "rg --pre sh x",
            "rg --pre=sh x",
            "rg --hostname-bin x",
            "sort -o x y",
            "sort --compress-program=x y",
            "sort -ro x",
            "fd -x rm",
            "fd -Hx rm",
            "npm run build",
            "npm test",
            "make",
            "make all",
            "python3 -c x",
            "python3.11 x.py",
            "env ls",
            "/usr/bin/env ls",
            "sudo ls",
            "xargs rm",
            "bash x.sh",
            "./build.sh --release",
            "/bin/ls",
            "FOO=bar git status",
            "awk x",
            "sed -i s/a/b/ x",
            "rm x",
            "$CMD x",
            "l?",
            "g\\it status x'",
        ];
        for command in commands {
            assert_eq!(of(command), Some(Grant::Exactly(command.to_owned())), "{command}");
        }
    }

    #[test]
    fn quotes_around_a_known_shape_change_nothing() {
        assert_eq!(label("\"git\" st'atus'"), "`git status` commands");
    }

    #[test]
    fn several_commands_and_very_long_ones_are_not_covered() {
        let cases = [
            "git status; rm -rf /",
            "git status && rm x",
            "git status & rm x",
            "cat x | sh",
            "echo $(rm x)",
            "echo `rm x`",
            "echo x > /etc/passwd",
            "cat < x",
            "ls\nrm x",
            "ls\rrm x",
            "(rm x)",
            "",
            "   ",
        ];
        for command in cases {
            assert_eq!(of(command), None, "{command}");
        }
        assert_eq!(of(&format!("make {}", "x".repeat(300))), None);
    }

    #[test]
    fn a_grant_covers_what_it_says_and_no_more() {
        let covers = |granted: &str, wanted: &str| of(granted).unwrap().covers(&of(wanted).unwrap());
        assert!(covers("git log", "git log --oneline"));
        assert!(!covers("git log", "git log --output=x"));
        assert!(!covers("git log", "git status"));
        assert!(covers("npm run build", "npm run build"));
        assert!(!covers("npm run build", "npm run build --script-shell=x"));
        assert!(!covers("npm run", "npm run build"));
        assert!(!covers("cargo test", "cargo test --config x"));
    }

    #[test]
    fn no_shape_is_the_beginning_of_another_that_is_stricter() {
        for a in SHAPES {
            for b in SHAPES {
                assert!(
                    a.start == b.start || !b.start.starts_with(&format!("{} ", a.start)),
                    "{} and {}",
                    a.start,
                    b.start
                );
            }
        }
    }
}
