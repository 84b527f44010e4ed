//! Decides whether a shell command reads a whole tree that contains acpd's own files without naming
//! them, such as `grep -r` in the home folder, and whether it calls acpd. Pure: reads no files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use domain::Environment;

use super::naming::{clean, expand, fits_part};
use crate::shell::{self, Word, base};

/// Programs that descend into folders by default, or that work on whole folders.
const ALWAYS: [&str; 22] = [
    "rg",
    "ag",
    "ack",
    "ugrep",
    "ug",
    "rgrep",
    "find",
    "fd",
    "fdfind",
    "rsync",
    "tar",
    "gtar",
    "bsdtar",
    "7z",
    "7za",
    "cpio",
    "pax",
    "mksquashfs",
    "mv",
    "rclone",
    // These give a folder another name, under which it would not be recognised.
    "ln",
    "mount",
];

/// Programs that descend into folders with an option `-r`, `-R` or `-a`, or one that begins with
/// `--rec`, `--arch` or `--deref`.
const RECURSIVE_WITH_OPTION: [&str; 13] =
    ["grep", "egrep", "fgrep", "zgrep", "diff", "cp", "scp", "zip", "rm", "chmod", "chown", "chgrp", "setfacl"];

/// Programs that search the current folder unless another one is given.
const SEARCHERS: [&str; 12] =
    ["rg", "ag", "ack", "ugrep", "ug", "rgrep", "grep", "egrep", "fgrep", "zgrep", "fd", "fdfind"];

/// Returns whether a command reads a tree with protected paths. `cwd` is the folder in which it
/// starts, and `environment` has its variables.
pub fn reads_protected_tree(command: &str, protected_paths: &[PathBuf], cwd: &Path, environment: &Environment) -> bool {
    // The command is too long to be parsed.
    if command.len() > shell::MAX_COMMAND_BYTES {
        return true;
    }
    let is_above = |path: &Path| protected_paths.iter().any(|protected| leads_to(path, protected));
    let home = environment.get("HOME").unwrap_or("/");
    let mut at = cwd.to_owned();
    let (mut reads, mut is_near) = (false, false);
    // The same words may appear many times, after different programs.
    let mut seen = BTreeSet::new();
    for call in shell::programs(&expand(command, environment)).calls {
        let Some((program, arguments)) = call.split_first() else { continue };
        let named = |word: &Word| clean(&at.join(if word.text == "~" { home } else { path_in(&word.text) }));
        for path in arguments.iter().filter(|word| !word.text.is_empty()).map(named) {
            is_near |= !seen.contains(&path) && is_above(&path);
            seen.insert(path);
        }
        let name = base(&program.text);
        if matches!(name, "cd" | "pushd") {
            let folder = arguments.iter().find(|word| !word.text.starts_with('-'));
            at = folder.map_or_else(|| PathBuf::from(home), named);
            is_near |= folder.is_none();
        } else if reads_trees(name, arguments) {
            reads = true;
            is_near |= reads_here(name, arguments) && is_above(&at);
        }
    }
    reads && is_near
}

/// Returns whether one of the programs is or may be acpd itself, which could answer permission
/// questions.
pub fn calls_acpd(command: &str) -> bool {
    // A command that is too long to be parsed may call anything.
    if command.len() > shell::MAX_COMMAND_BYTES {
        return command.contains("acpd");
    }
    let programs = shell::programs(command);
    let is_acpd = |word: &Word| base(&word.text) == "acpd";
    programs.calls.iter().any(|call| {
        call.first().is_some_and(is_acpd)
            || (programs.hides_some && call.iter().any(|word| word.text.contains("acpd ") || is_acpd(word)))
    })
}

fn reads_trees(name: &str, arguments: &[Word]) -> bool {
    let asks_for_recursion = |word: &Word| {
        let text = word.text.as_str();
        let is_cluster = text.starts_with('-') && !text.starts_with("--");
        (is_cluster && text.contains(['r', 'R', 'a']))
            || ["--rec", "--arch", "--deref"].iter().any(|start| text.starts_with(start))
            || (text.starts_with("--d") && arguments.iter().any(|word| word.text.contains("rec")))
            || (is_cluster && text.contains('d') && arguments.iter().any(|word| word.text.ends_with("recurse")))
    };
    ALWAYS.contains(&name)
        || (RECURSIVE_WITH_OPTION.contains(&name) && arguments.iter().any(asks_for_recursion))
        || (name == "git" && arguments.iter().any(|word| word.text.starts_with("--no-ind")))
}

/// Returns whether the program searches its working folder, because its arguments name no other.
fn reads_here(name: &str, arguments: &[Word]) -> bool {
    if name == "find" {
        return arguments.first().is_none_or(|word| word.text.starts_with('-'));
    }
    if name != "git" && !SEARCHERS.contains(&name) {
        return false;
    }
    // These letters take a value. For long options that is unknown, so the word after one is not
    // counted.
    let letters = if name.ends_with("grep") { "efmABCDd" } else { "efmABCDdgtTjrEM" };
    let takes = |text: &str| text.starts_with("--") && !text.contains('=') || text.ends_with(|c| letters.contains(c));
    let (mut operands, mut has_pattern, mut is_value) = (0, false, false);
    for text in arguments.iter().map(|word| word.text.as_str()) {
        if text.starts_with('-') && text.len() > 1 {
            has_pattern |= text.starts_with("--reg") || (!text.starts_with("--") && text.contains(['e', 'f']));
            is_value = text != "--" && takes(text);
        } else {
            operands += usize::from(!is_value);
            is_value = false;
        }
    }
    // `grep` is an operand of `git`.
    operands <= usize::from(!has_pattern) + usize::from(name == "git")
}

/// Returns the part of a word that may be a path: all of it, or the value of an option.
fn path_in(word: &str) -> &str {
    if !word.starts_with('-') {
        return word;
    }
    match (word.split_once('='), word.find('/')) {
        (Some((_, value)), _) => value,
        (None, Some(start)) => &word[start..],
        (None, None) => word,
    }
}

/// Returns whether a path is a protected path or a folder above one. Its components may be shell
/// patterns.
fn leads_to(path: &Path, protected: &Path) -> bool {
    let mut parts = protected.components();
    path.components().all(|part| parts.next().is_some_and(|wanted| fits_part(part, wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_read_a_tree_around_a_protected_path_are_found() {
        let protected_paths = ["/home/me/.local/state/acpd", "/home/me/.config/acpd"].map(PathBuf::from);
        let environment: Environment = [("HOME".to_owned(), "/home/me".to_owned())].into_iter().collect();
        let reads =
            |command: &str, cwd: &str| reads_protected_tree(command, &protected_paths, Path::new(cwd), &environment);
        for command in [
            "grep -r '' /home/me/.local/state",
            "grep -rh sk- ~/.local",
            "grep --recursive x \"$HOME\"",
            "grep -d recurse x ~",
            "grep --directories recurse -h sk- ~",
            "grep --dir=recurse -h sk- ~",
            "ln -s ~/.local/state lnk; cat lnk/acpd/keys/x",
            "mount --bind ~/.local/state b",
            "diff -r ~/.local/state /x",
            "tar -czf /tmp/x.tar -C ~ .",
            "tar czf /tmp/x.tar --directory=/home/me .config",
            "cp -a ~/.config /tmp/x",
            "rsync -a / /x",
            "zip -r x.zip /home/*",
            "find / -name x",
            "sudo sh -c 'rg -uu sk- /home'",
            "cd ../.. && rg -uu sk-",
            "cd .. && cd .. && grep -r sk-",
            "cd && grep -r sk-",
            "echo ~/.config | xargs grep -r x",
            "git grep --no-index x /home/me",
            "mv ~/.local /tmp/x",
            "rm -rf ~/.config",
        ] {
            assert!(reads(command, "/home/me/work/a"), "{command}");
        }
        for command in ["grep -rh sk- .", "rg -uu sk-", "rg -t rust x", "find -name x", "grep -r -e x", "ag x"] {
            assert!(reads(command, "/home/me"), "{command}");
            assert!(!reads(command, "/home/me/work"), "{command}");
        }
        for command in [
            "ls -la",
            "cat notes",
            "grep x .profile",
            "grep -rn x src",
            "rg -n x src",
            "rg 'a / b' src",
            "find src -name x",
            "cp a b",
            "git status",
            "tar xf a.tar",
            "cargo test",
            "cd work && rg x",
        ] {
            assert!(!reads(command, "/home/me"), "{command}");
        }
    }

    #[test]
    fn calls_of_acpd_are_found() {
        for command in ["acpd ctl allow x", "sudo /usr/bin/acpd ctl stop", "ls; sh -c 'acpd ctl x'", "$X; echo acpd"] {
            assert!(calls_acpd(command), "{command}");
        }
        for command in ["cargo test -p acpd", "ls acpd", "grep acpd x", "git log"] {
            assert!(!calls_acpd(command), "{command}");
        }
    }
}
