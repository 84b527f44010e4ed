//! Decides whether a program hides what it runs, because its arguments or its input are in a
//! language that is not parsed here.

use super::tables::{COMMAND_VARIABLES, HIDING_VARIABLES, is_in};
use super::{Programs, Word, is_cluster_with, read, sed};
use crate::shell::has_substitution;

/// Returns whether a path is an alias of a program's own input or that of the shell.
pub(super) fn is_input(path: &str) -> bool {
    path == "-" || path.starts_with("/dev/") || path.starts_with("/proc/")
}

/// Returns whether the arguments make such a program run something, as far as they show it.
pub(super) fn hides(name: &str, arguments: &[Word], is_fed: bool) -> bool {
    let any = |test: &dyn Fn(&str) -> bool| arguments.iter().any(|word| test(&word.text));
    let begins = |starts: &[&str]| any(&|text| starts.iter().any(|start| text.starts_with(start)));
    match name {
        // The contents of the script are unknown, and the command may have written it itself.
        "." | "source" => true,
        "alias" => !arguments.is_empty(),
        "enable" => begins(&["-f"]),
        "hash" => begins(&["-p"]),
        "bind" => !arguments.is_empty(),
        "complete" | "compgen" => any(&|text| ["C", "F", "W"].iter().any(|letter| is_option_with(text, letter))),
        "mapfile" | "readarray" => begins(&["-C"]),
        "at" | "batch" => {
            !arguments.iter().all(|word| matches!(word.text.as_str(), "-l" | "-q" | "-V")) || name == "batch"
        }
        "crontab" => !arguments.iter().all(|word| matches!(word.text.as_str(), "-l" | "-i" | "-V")),
        "make" | "gmake" | "bmake" => {
            arguments.iter().any(|word| word.expands || is_setting(&word.text))
                || begins(&["--eval"])
                || reads_input(arguments)
        }
        "tar" | "gtar" | "bsdtar" => {
            // The old style has the option letters in the first word, and their values after it.
            let is_old = |word: &Word| !word.text.starts_with('-') && word.text.contains(['I', 'F']);
            begins(&["--checkpoint-a"]) || arguments.first().is_some_and(is_old)
        }
        // Only options before `--` count, which name programs; those after it are for the program
        // that is run.
        "cargo" => {
            let own = arguments.iter().take_while(|word| word.text != "--");
            own.into_iter().any(|word| ["--config", "-Z"].iter().any(|start| word.text.starts_with(start)))
        }
        "go" => any(&|text| {
            let option = text.trim_start_matches('-');
            option.len() < text.len() && ["exec", "toolexec", "vettool"].iter().any(|start| option.starts_with(start))
        }),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => {
            let runs = |text: &str| text.contains("system") || text.contains(['|', '@']);
            let program = arguments.iter().find(|word| !word.text.starts_with('-'));
            any(&runs) || program.is_some_and(|word| word.expands) || reads_input(arguments)
        }
        "sed" | "gsed" => sed_runs(arguments) || reads_input(arguments),
        "vim" | "vi" | "nvim" | "gvim" | "rvim" | "view" | "vimdiff" | "ex" => {
            is_fed || begins(&["-c", "--cmd", "+", "-S", "-s", "-u", "-es", "-Es"])
        }
        "emacs" | "emacsclient" => {
            is_fed || begins(&["-e", "--e", "-f", "--f", "-l", "--l", "-x", "--script", "--batch"])
        }
        "ed" | "red" | "sftp" | "ftp" | "gdb" => is_fed || begins(&["-ex", "--ex", "-x", "--command", "-b"]),
        "less" | "more" | "most" => begins(&["+", "-k", "--lesskey"]),
        "ssh" | "scp" => any(&|text| text.to_ascii_lowercase().contains("command")) || begins(&["-F"]),
        "socat" => {
            any(&|text| ["exec:", "system:", "shell:"].iter().any(|kind| text.to_ascii_lowercase().contains(kind)))
        }
        "sqlite3" => is_fed || any(&|text| text.contains(".sh") || text.contains(".system") || text.contains('|')),
        "psql" | "mysql" | "mariadb" => is_fed || any(&|text| text.contains("\\!") || text.contains("program")),
        _ => false,
    }
}

impl Programs {
    /// Records a variable that is set for one program, or for all that follow.
    pub(super) fn add_variable(&mut self, assignment: &Word, depth: usize) {
        let Some((name, value)) = assignment.text.split_once('=') else { return };
        let name = name.trim_end_matches('+');
        if COMMAND_VARIABLES.contains(&name) {
            self.hides_some |= assignment.expands;
            self.add_script(read(value), depth + 1);
        }
        // Arithmetic expands the value of a variable if it looks like a subscript.
        self.hides_some |= is_in(HIDING_VARIABLES, name) || (value.contains('[') && has_substitution(value));
    }
}

/// Returns whether a text is `NAME=value`, for programs that take variables in this form.
fn is_setting(text: &str) -> bool {
    let name = text.split_once('=').map(|(name, _)| name.trim_end_matches([':', '+', '?', '!']));
    name.is_some_and(|name| !name.is_empty() && !name.starts_with('-') && !name.contains('/'))
}

fn is_option_with(text: &str, letter: &str) -> bool {
    letter.chars().all(|letter| is_cluster_with(text, letter))
}

/// Returns whether the program's input is its script: `-f -`, `--file=/dev/stdin` and similar.
fn reads_input(arguments: &[Word]) -> bool {
    arguments.iter().enumerate().any(|(index, word)| {
        let joined =
            word.text.strip_prefix("--file=").or_else(|| word.text.strip_prefix("-f")).filter(|text| !text.is_empty());
        let next = matches!(word.text.as_str(), "-f" | "--file" | "--makefile").then(|| arguments.get(index + 1));
        let next = next.flatten();
        joined.is_some_and(is_input) || next.is_some_and(|word| word.expands || is_input(&word.text))
    })
}

fn sed_runs(arguments: &[Word]) -> bool {
    let mut scripts = Vec::new();
    for (index, word) in arguments.iter().enumerate() {
        let text = word.text.as_str();
        if let Some(script) = text.strip_prefix("--expression=") {
            scripts.push((script, word.expands));
        } else if text == "--expression" || is_cluster_with(text, 'e') {
            scripts.extend(arguments.get(index + 1).map(|word| (word.text.as_str(), word.expands)));
            let joined = text.split_once('e').map_or("", |(_, joined)| joined);
            scripts.extend((!joined.is_empty() && !text.starts_with("--")).then_some((joined, word.expands)));
        }
    }
    if scripts.is_empty()
        && !arguments.iter().any(|word| word.text.starts_with("-f") || word.text.starts_with("--file"))
    {
        let script = arguments.iter().find(|word| !word.text.starts_with('-') || word.expands);
        scripts.extend(script.map(|word| (word.text.as_str(), word.expands)));
    }
    scripts.iter().any(|(script, expands)| sed::may_run(script) || (*expands && script.trim().is_empty()))
}
