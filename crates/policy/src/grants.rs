//! Decides what an "always" answer about a shell command covers.
//!
//! A command of a known shape is covered by its first words: no argument that the shape accepts
//! makes it run another program or write to an unexpected place. Every other command is covered
//! exactly as it is written. Text that is not plain (see `shell::plain`) is not covered at all.
//! That excludes several commands in one text and words that the shell would expand, because the
//! user did not see what they expand to.

use domain::Grant;

use crate::shell::plain;

mod shapes;

use shapes::{Operands, Options, Rest, SHAPES, Shape};

/// The longest command that is covered exactly. The user could not recognise a longer one in the
/// text of the option.
const MAX_GRANT_CHARS: usize = 200;

/// Returns what an "always" answer about a command covers; None if the answer is not offered.
pub fn always_grant(command: &str) -> Option<Grant> {
    // Only characters that the shell itself treats as space around a command.
    let command = command.trim_matches([' ', '\t', '\n']);
    let words = plain(command)?;
    if words.is_empty() || words.iter().any(|word| word.names_files) {
        return None;
    }
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    match SHAPES.iter().find(|shape| shape.fits(&words)) {
        Some(shape) => Some(Grant::Command(shape.words().map(str::to_owned).collect())),
        None => (command.chars().count() <= MAX_GRANT_CHARS).then(|| Grant::Exactly(command.to_owned())),
    }
}

impl Shape {
    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.start.split(' ')
    }

    fn fits(&self, words: &[&str]) -> bool {
        let start = self.words().count();
        words.len() >= start
            && self.words().zip(words).all(|(wanted, word)| wanted == *word)
            && self.allows(&words[start..])
    }

    fn allows(&self, arguments: &[&str]) -> bool {
        // A modifier may follow the percent sign.
        let has = |word: &str, text: &str| word.replace("%+", "%").replace("%-", "%").replace("% ", "%").contains(text);
        if self.never.is_some_and(|text| arguments.iter().any(|word| has(word, text))) {
            return false;
        }
        let Options::Only(known) = self.options else { return true };
        let mut follows_option = false;
        for (index, word) in arguments.iter().enumerate() {
            let rest = &arguments[index + 1..];
            match (*word, &self.rest) {
                ("--", Rest::Nothing) => return false,
                // After an option, `--` may be that option's value, and options may still follow.
                ("--", Rest::Operands) => return !follows_option && rest.iter().all(|word| self.operands.allow(word)),
                ("--", Rest::Options(known)) => {
                    return rest.iter().all(|word| !is_option(word) || is_known(word, known));
                }
                (option, _) if is_option(option) => {
                    if !is_known(option, known) {
                        return false;
                    }
                    let is_number = option[1..].bytes().all(|byte| byte.is_ascii_digit());
                    follows_option = !option.contains('=') && !is_number;
                }
                (operand, _) => {
                    if !self.operands.allow(operand) {
                        return false;
                    }
                    follows_option = false;
                }
            }
        }
        true
    }
}

impl Operands {
    fn allow(&self, operand: &str) -> bool {
        match self {
            Self::Any => true,
            Self::None => false,
            Self::Inside => !operand.starts_with('/') && !operand.split('/').any(|part| part == ".."),
        }
    }
}

fn is_option(word: &str) -> bool {
    word.starts_with('-') && word.len() > 1
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

/// Returns the first word of every shape.
#[cfg(test)]
pub(crate) fn programs_with_shapes() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().filter_map(|shape| shape.words().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(command: &str) -> String {
        always_grant(command).map_or("nothing".to_owned(), |grant| grant.label())
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
            ("diff -u a b", "`diff` commands"),
            ("git branch -a", "`git branch` commands"),
            ("git log --format='%h %s' --since='2 weeks ago'", "`git log` commands"),
            ("cargo test --release -- --nocapture --test-threads=1 --skip slow", "`cargo test` commands"),
            ("go test -v ./...", "`go test` commands"),
            ("ps aux", "`ps aux` commands"),
            ("echo 'it costs 5$'", "`echo` commands"),
        ];
        for (command, expected) in cases {
            assert_eq!(label(command), expected, "{command}");
        }
    }

    /// Each of these either begins like a command that is covered by its first words, or runs what
    /// its arguments name.
    #[test]
    fn commands_that_could_run_or_write_something_else_are_covered_exactly() {
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
            "test -f x",
            "printf hi",
            "read x",
            "git branch topic",
            "git branch -v topic",
            "git branch --list x",
            "git log --format=%G",
            "git log --format=%+GG",
            "git log --format=%-GG",
            "git log '--format=% GG'",
            "cargo test -- --logfile=x",
            "cargo test -- --logfile x",
            "cargo test x -- -o x",
            "go test /tmp/x_test.go",
            "go build ../x",
            "ps -eo environ",
            "ps auxeww",
            "diff -l a b",
            "fd -l x",
            "time ls",
            "command ls",
            "'time' ls",
        ];
        for command in commands {
            assert_eq!(always_grant(command), Some(Grant::Exactly(command.to_owned())), "{command}");
        }
    }

    #[test]
    fn quotes_around_a_known_shape_change_nothing() {
        assert_eq!(label("\"git\" st'atus'"), "`git status` commands");
    }

    #[test]
    fn a_text_that_is_not_plainly_one_command_is_not_covered() {
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
            "git show $X",
            "$CMD x",
            "l?",
            "ls *.rs",
            "ls ~/x",
            "ls a=~",
            "ls {a,b}",
            "ls !x",
            "ls $'x'",
            "ls $\"x\"",
            "test -v $'a[\\x24\\x28touch P\\x29]'",
            "printf -v $'a[\\x24\\x28touch P\\x29]' x",
            "g\\it status x'",
            "git status # x",
            "ls\u{a0}",
            "\u{a0}ls",
            "ls\u{b}",
            "",
            "   ",
        ];
        for command in cases {
            assert_eq!(always_grant(command), None, "{command}");
        }
        assert_eq!(always_grant(&format!("make {}", "x".repeat(300))), None);
    }

    #[test]
    fn a_grant_covers_exactly_its_description() {
        let covers =
            |granted: &str, wanted: &str| always_grant(granted).unwrap().covers(&always_grant(wanted).unwrap());
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
